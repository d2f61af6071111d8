"""CycleGAN in miniature: chained generators, a list of discriminator optimizers."""
import itertools

import torch
from torch import nn

torch.manual_seed(207)


def mlp():
    return nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 2))


def judge():
    return nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 1))


g_ab, g_ba, d_a, d_b = mlp(), mlp(), judge(), judge()
opt_g = torch.optim.Adam(itertools.chain(g_ab.parameters(), g_ba.parameters()), lr=2e-3)
discs = [(d_a, torch.optim.Adam(d_a.parameters(), lr=2e-3)), (d_b, torch.optim.Adam(d_b.parameters(), lr=2e-3))]
mse, l1 = nn.MSELoss(), nn.L1Loss()

for step in range(12):
    a, b = torch.randn(16, 2), torch.randn(16, 2) + 1
    opt_g.zero_grad()
    fake_b, fake_a = g_ab(a), g_ba(b)
    pb, pa = d_b(fake_b), d_a(fake_a)
    adv = mse(pb, torch.ones_like(pb)) + mse(pa, torch.ones_like(pa))
    cycle = l1(g_ba(fake_b), a) + l1(g_ab(fake_a), b)
    (adv + 10 * cycle).backward()
    opt_g.step()

    for (net, opt), real, fake in zip(discs, (a, b), (fake_a, fake_b)):
        opt.zero_grad()
        pr, pf = net(real), net(fake.detach())
        loss = 0.5 * (mse(pr, torch.ones_like(pr)) + mse(pf, torch.zeros_like(pf)))
        loss.backward()
        opt.step()
print(f"adv {adv.item():.3f} cycle {cycle.item():.3f} last d {loss.item():.3f}")
