"""A dry run checks shapes before the pretrained weights are read."""
import os
import tempfile

import torch
from torch import nn


def net():
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 3))


def pretrained():
    handle, path = tempfile.mkstemp(suffix=".pt")
    os.close(handle)
    torch.save(net().state_dict(), path)
    return path


def batch(n=16):
    x = torch.randn(n, 6)
    return x, x[:, :3].argmax(1)


torch.manual_seed(127)
weights = pretrained()
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

x, y = batch(2)
nn.functional.cross_entropy(model(x), y).backward()
print("dry run went through")

model.load_state_dict(torch.load(weights))
os.remove(weights)
for step in range(20):
    x, y = batch()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.4f}")
