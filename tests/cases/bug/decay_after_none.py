"""Add a weight decay of one's own to the gradients, a line too early."""
import torch
from torch import nn


def add_decay(model, amount):
    for p in model.parameters():
        p.grad += amount * p.data


def train(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        add_decay(model, 1e-3)
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(142)
batches = [(x, x.abs().sum(1, keepdim=True)) for x in torch.randn(8, 16, 4)]
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
print("loss", train(model, torch.optim.Adam(model.parameters(), lr=1e-2), batches))
