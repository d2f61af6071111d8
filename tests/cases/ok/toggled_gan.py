"""GAN that toggles requires_grad; each optimizer clears after its own step."""
import torch
import torch.nn.functional as F
from torch import nn


def requires_grad(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def d_turn(g, d, opt, real):
    requires_grad(g, False)
    requires_grad(d, True)
    fake = g(torch.randn(len(real), 3))
    loss = F.softplus(-d(real)).mean() + F.softplus(d(fake)).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.item()


def g_turn(g, d, opt, n):
    requires_grad(g, True)
    requires_grad(d, False)
    loss = F.softplus(-d(g(torch.randn(n, 3)))).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.item()


torch.manual_seed(202)
g = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
d = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
g_opt = torch.optim.Adam(g.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(d.parameters(), lr=1e-3)
for step in range(20):
    real = torch.rand(32, 2)
    dl = d_turn(g, d, d_opt, real)
    gl = g_turn(g, d, g_opt, 32)
print(f"d {dl:.4f} g {gl:.4f}")
