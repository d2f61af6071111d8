"""Energy-based model trained with short-run Langevin samples."""
import torch
from torch import nn


def sample(energy, n, steps=4, step_size=0.1):
    x = torch.rand(n, 2) * 2 - 1
    for p in energy.parameters():
        p.requires_grad = False
    x.requires_grad = True
    for _ in range(steps):
        energy(x).sum().backward()
        x.data.add_(x.grad, alpha=-step_size).add_(0.01 * torch.randn_like(x))
        x.grad.detach_()
        x.grad.zero_()
    for p in energy.parameters():
        p.requires_grad = True
    return x.detach()


torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3, betas=(0.0, 0.999))
for step in range(8):
    real = torch.randn(16, 2) * 0.1 + 0.5
    fake = sample(energy, 16)
    e_real, e_fake = energy(real), energy(fake)
    loss = (e_real - e_fake).mean() + 0.1 * (e_real**2 + e_fake**2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(energy.parameters(), 0.1)
    optimizer.step()
print(f"{loss.item():.4f}")
