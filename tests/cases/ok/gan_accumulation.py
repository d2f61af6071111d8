"""GAN with accumulation in both networks, toggled by requires_grad."""
import torch
import torch.nn.functional as F
from torch import nn


def toggle_grad(net, on):
    for p in net.parameters():
        p.requires_grad = on


def make_train_step(G, D, g_opt, d_opt, d_steps=2, d_accum=3, g_accum=2, n=12):
    def step(real):
        g_opt.zero_grad()
        d_opt.zero_grad()
        chunks = iter(real.split(n))
        toggle_grad(D, True)
        toggle_grad(G, False)
        for _ in range(d_steps):
            d_opt.zero_grad()
            for _ in range(d_accum):
                d_loss = F.relu(1 - D(next(chunks))).mean() + F.relu(1 + D(G(torch.randn(n, 3)))).mean()
                (d_loss / d_accum).backward()
            d_opt.step()
        toggle_grad(D, False)
        toggle_grad(G, True)
        g_opt.zero_grad()
        for _ in range(g_accum):
            g_loss = -D(G(torch.randn(n, 3))).mean() / float(g_accum)
            g_loss.backward()
        g_opt.step()
        return d_loss.item(), g_loss.item()

    return step


torch.manual_seed(605)
G = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2))
D = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 1))
step = make_train_step(G, D, torch.optim.Adam(G.parameters(), 1e-3), torch.optim.Adam(D.parameters(), 1e-3))
for _ in range(8):
    d, g = step(torch.randn(72, 2) + 1)
print(f"d {d:.4f} g {g:.4f}")
