"""Predict tomorrow's rainfall class from a week of readings."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class RainTrainer:
    def __init__(self, net, lr=0.02):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()
        self.history = []

    def training_step(self, batch):
        week, label = batch
        return self.criterion(self.net(week), label)

    def optimise(self, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.opt.step()

    def fit(self, loader, epochs):
        self.net.train()
        for epoch in range(epochs):
            for batch in loader:
                loss = self.training_step(batch)
                self.optimise(loss)
            self.history.append(loss.item())


torch.manual_seed(11)
weeks = torch.rand(160, 7)
labels = (weeks[:, -3:].mean(1) * 3).long().clamp(max=2)
trainer = RainTrainer(nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 3)))
trainer.fit(DataLoader(TensorDataset(weeks, labels), batch_size=20, shuffle=True), epochs=3)
print("loss per epoch", [round(v, 4) for v in trainer.history])
