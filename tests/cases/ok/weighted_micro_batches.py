"""Micro-batches of unequal size, each weighted by its share of the big batch."""
import torch
from torch import nn


def split_batch(x, y, sizes):
    return zip(x.split(sizes), y.split(sizes))


torch.manual_seed(117)
model = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(25):
    x = torch.randn(30, 4)
    y = x.max(1, keepdim=True).values
    for xb, yb in split_batch(x, y, [16, 10, 4]):
        loss = nn.functional.mse_loss(model(xb), yb)
        (loss * len(xb) / len(x)).backward()
    optimizer.step()
    model.zero_grad()
print(f"last micro loss {loss.item():.4f}")
