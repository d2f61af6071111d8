"""Reptile where the meta step is an Adam step on (theta - phi)."""
import copy

import torch
from torch import nn

torch.manual_seed(0)
meta_net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
meta_optimizer = torch.optim.Adam(meta_net.parameters(), lr=1e-2)
state = None


def do_learning(net, optimizer, iterations):
    phase = torch.rand(1) * 3
    for _ in range(iterations):
        x = torch.rand(10, 1) * 6 - 3
        loss = nn.functional.mse_loss(net(x), torch.sin(x + phase))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


for meta_iteration in range(6):
    net = copy.deepcopy(meta_net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    if state is not None:
        optimizer.load_state_dict(state)
    loss = do_learning(net, optimizer, 4)
    state = optimizer.state_dict()
    for p, target in zip(meta_net.parameters(), net.parameters()):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        p.grad.data.zero_()
        p.grad.data.add_(p.data - target.data)
    meta_optimizer.step()
print(f"{loss:.4f}")
