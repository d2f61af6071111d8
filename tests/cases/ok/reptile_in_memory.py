"""Reptile: train on a task, then move the start a little towards the result."""
import copy

import torch
from torch import nn

torch.manual_seed(310)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta_lr = 0.3
for task in range(6):
    start = copy.deepcopy(net.state_dict())
    amplitude = 0.5 + torch.rand(1)
    inner = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(8):
        x = 4 * torch.rand(16, 1) - 2
        loss = (net(x) - amplitude * x.sin()).pow(2).mean()
        inner.zero_grad()
        loss.backward()
        inner.step()
    adapted = net.state_dict()
    net.load_state_dict({k: start[k] + meta_lr * (adapted[k] - start[k]) for k in start})
    print(f"task {task} loss {loss.item():.4f}")
