"""Old-style schedule: the scheduler ticks at the top of the epoch."""
import warnings

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

warnings.filterwarnings("ignore")


def train_model(model, criterion, optimizer, scheduler, num_epochs=3):
    for epoch in range(num_epochs):
        scheduler.step()
        model.train()
        running_loss = 0.0
        for _ in range(6):
            inputs = torch.randn(16, 4)
            labels = (inputs.prod(1) > 0).long()
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item() * inputs.size(0)
        print("Epoch {}/{} loss {:.4f}".format(epoch, num_epochs - 1, running_loss / 96))
    return model


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
exp_lr = lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
train_model(net, nn.CrossEntropyLoss(), opt, exp_lr)
