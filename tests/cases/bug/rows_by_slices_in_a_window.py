"""Micro-batches are slices of one tensor, taken in a loop inside the loop."""
import torch
from torch import nn

torch.manual_seed(41)
data = torch.randn(96, 5)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    for part in range(3):
        start = 24 * step + 8 * part
        x = data[start : start + 8]
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
    optimizer.step()
