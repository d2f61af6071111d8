"""Reptile whose inner loop forgot to zero."""
import copy
import math

import torch
from torch import nn


def task():
    amp, phase = 1 + torch.rand(1).item() * 4, torch.rand(1).item() * math.pi
    x = torch.rand(10, 1) * 10 - 5
    return x, amp * torch.sin(x + phase)


def inner_train(net, x, y, lr=0.01, k=5):
    opt = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(k):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(0)
meta = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
for it in range(6):
    fast = copy.deepcopy(meta)
    x, y = task()
    loss = inner_train(fast, x, y)
    with torch.no_grad():
        for p, q in zip(meta.parameters(), fast.parameters()):
            p += 0.1 * (q - p)
print(f"{loss:.4f}")
