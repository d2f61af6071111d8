"""Windows come as lists from a generator; the last list may be shorter."""
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def grouped(iterable, n):
    it = iter(iterable)
    while group := list(islice(it, n)):
        yield group


def update(model, optimizer, group):
    optimizer.zero_grad()
    total = 0.0
    for x, y in group:
        loss = nn.functional.smooth_l1_loss(model(x), y) / len(group)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


torch.manual_seed(115)
x = torch.randn(90, 4)
y = x.abs().sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=9)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
for epoch in range(2):
    losses = [update(model, optimizer, group) for group in grouped(loader, 4)]
    print(f"epoch {epoch} windows {len(losses)} last {losses[-1]:.4f}")
