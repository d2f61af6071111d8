"""First-order MAML: query gradients of adapted clones move the shared start."""
import copy

import torch
from torch import nn


def task():
    phase = 3 * torch.rand(1)
    def draw(n):
        x = 6 * torch.rand(n, 1) - 3
        return x, torch.sin(x + phase)
    return draw


torch.manual_seed(308)
meta = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
meta_opt = torch.optim.Adam(meta.parameters(), lr=0.01)
loss_fn = nn.MSELoss()
tasks_per_update = 3

for update in range(8):
    meta_opt.zero_grad()
    for p in meta.parameters():
        p.grad = torch.zeros_like(p)
    for _ in range(tasks_per_update):
        draw = task()
        fast = copy.deepcopy(meta)
        inner = torch.optim.SGD(fast.parameters(), lr=0.05)
        for _ in range(3):
            x, y = draw(10)
            inner.zero_grad()
            loss_fn(fast(x), y).backward()
            inner.step()
        x, y = draw(10)
        fast.zero_grad()
        query = loss_fn(fast(x), y)
        query.backward()
        for p, q in zip(meta.parameters(), fast.parameters()):
            p.grad += q.grad / tasks_per_update
    meta_opt.step()
print(f"query {query.item():.4f}")
