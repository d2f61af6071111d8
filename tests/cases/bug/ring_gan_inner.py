"""GAN on points of a ring; the discriminator takes two steps for each generator step."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D_STEPS, BATCH, ZDIM = 2, 32, 4


def ring(n):
    angle = 2 * math.pi * torch.rand(n)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, o))


def train_fn(G, D, g_optim, d_optim):
    d_optim.zero_grad()
    for _ in range(D_STEPS):
        real = ring(BATCH)
        fake = G(torch.randn(BATCH, ZDIM)).detach()
        d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake)).mean()
        d_loss.backward()
        d_optim.step()

    for p in D.parameters():
        p.requires_grad_(False)
    g_optim.zero_grad()
    g_loss = F.softplus(-D(G(torch.randn(BATCH, ZDIM)))).mean()
    g_loss.backward()
    g_optim.step()
    for p in D.parameters():
        p.requires_grad_(True)
    return d_loss.item(), g_loss.item()


def main():
    torch.manual_seed(12)
    G, D = mlp(ZDIM, 2), mlp(2, 1)
    g_optim = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
    d_optim = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
    for it in range(20):
        d, g = train_fn(G, D, g_optim, d_optim)
    print(f"d {d:.4f} g {g:.4f}")


main()
