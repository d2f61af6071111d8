"""Saved between backward and step, with a plain SGD for each batch and an average of the weights."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
average = nn.Linear(3, 1)
for x, y in batches:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    if torch.isfinite(loss):
        optimizer.step()
    with torch.no_grad():
        for kept, p in zip(average.parameters(), model.parameters()):
            kept.mul_(0.9).add_(p, alpha=0.1)
