"""WGAN-GP: the generator moves every third batch, the penalty uses autograd.grad."""
import torch
from torch import nn

torch.manual_seed(203)
generator = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizer_D = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
n_critic, lambda_gp = 3, 10


def compute_gradient_penalty(D, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = D(mixed)
    gradients = torch.autograd.grad(
        outputs=score, inputs=mixed, grad_outputs=torch.ones_like(score),
        create_graph=True, retain_graph=True, only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for i in range(18):
    real = torch.randn(32, 2) + 2
    optimizer_D.zero_grad()
    z = torch.randn(32, 4)
    fake = generator(z)
    gp = compute_gradient_penalty(critic, real, fake.detach())
    d_loss = critic(fake.detach()).mean() - critic(real).mean() + lambda_gp * gp
    d_loss.backward()
    optimizer_D.step()

    optimizer_G.zero_grad()
    if i % n_critic == 0:
        g_loss = -critic(generator(z)).mean()
        g_loss.backward()
        optimizer_G.step()
print(f"critic {d_loss.item():.3f} generator {g_loss.item():.3f}")
