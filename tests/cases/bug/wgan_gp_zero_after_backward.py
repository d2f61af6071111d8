"""WGAN-GP with n_critic; the critic's zero_grad is one line too late."""
import torch
from torch import autograd, nn

torch.manual_seed(0)
latent, n_critic, lambda_gp = 4, 3, 10.0
G = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_G = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.9))
opt_D = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.9))


def gradient_penalty(real, fake):
    alpha = torch.rand(real.size(0), 1)
    mix = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    out = D(mix)
    g = autograd.grad(out, mix, torch.ones_like(out), create_graph=True, retain_graph=True)[0]
    return ((g.norm(2, dim=1) - 1) ** 2).mean()


for i in range(12):
    real = torch.randn(16, 2) * 0.3 + 1
    fake = G(torch.randn(16, latent)).detach()
    d_loss = -D(real).mean() + D(fake).mean() + lambda_gp * gradient_penalty(real, fake)
    d_loss.backward()
    opt_D.zero_grad()
    opt_D.step()

    if i % n_critic == 0:
        opt_G.zero_grad()
        g_loss = -D(G(torch.randn(16, latent))).mean()
        g_loss.backward()
        opt_G.step()
print(f"d {d_loss.item():.3f} g {g_loss.item():.3f}")
