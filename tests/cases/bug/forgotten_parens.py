"""Two-moons classifier, endless sampler and a while loop."""
import torch
from torch import nn


def moons(n):
    t = torch.rand(n) * 3.1416
    y = (torch.rand(n) > 0.5).long()
    x = torch.where(y.bool(), 1 - t.cos(), t.cos())
    z = torch.where(y.bool(), 0.5 - t.sin(), t.sin())
    return torch.stack([x, z], 1) + 0.1 * torch.randn(n, 2), y


def endless(n):
    while True:
        yield moons(n)


torch.manual_seed(15)
model = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 2))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
stream = iter(endless(32))
step, limit = 0, 40
while step < limit:
    x, y = next(stream)
    opt.zero_grad
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    step += 1
    if step % 10 == 0:
        print(step, round(loss.item(), 4))
