"""StyleGAN2-like loop with lazy regularisers."""
import math

import torch
import torch.nn.functional as F
from torch import autograd, nn


def requires_grad(model, flag=True):
    for p in model.parameters():
        p.requires_grad = flag


def accumulate(ema, model, decay=0.9):
    par = dict(model.named_parameters())
    for k, p in ema.named_parameters():
        p.data.mul_(decay).add_(par[k].data, alpha=1 - decay)


def path_lengths(fake, latents, mean):
    noise = torch.randn_like(fake) / math.sqrt(fake.shape[1])
    (grad,) = autograd.grad((fake * noise).sum(), latents, create_graph=True)
    length = grad.pow(2).sum(1).sqrt()
    new_mean = mean + 0.01 * (length.mean() - mean)
    return (length - new_mean).pow(2).mean(), new_mean.detach()


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.map, self.syn = nn.Linear(4, 8), nn.Linear(8, 6)

    def forward(self, z, return_latents=False):
        w = torch.relu(self.map(z))
        x = torch.tanh(self.syn(w))
        return (x, w) if return_latents else x


torch.manual_seed(0)
generator, g_ema = Generator(), Generator()
discriminator = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_ema.eval()
accumulate(g_ema, generator, 0)
g_optim = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.99))
d_optim = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.0, 0.99))
mean_path = torch.zeros(())
for i in range(16):
    real = torch.randn(8, 6).sign()
    requires_grad(generator, False)
    requires_grad(discriminator, True)
    d_loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(generator(torch.randn(8, 4)))).mean()
    discriminator.zero_grad()
    d_loss.backward()
    d_optim.step()
    if i % 4 == 0:
        real.requires_grad = True
        pred = discriminator(real)
        (g,) = autograd.grad(pred.sum(), real, create_graph=True)
        r1 = g.pow(2).sum(1).mean()
        discriminator.zero_grad()
        (10 / 2 * r1 * 4 + 0 * pred[0]).backward()
        d_optim.step()

    requires_grad(generator, True)
    requires_grad(discriminator, False)
    g_loss = F.softplus(-discriminator(generator(torch.randn(8, 4)))).mean()
    generator.zero_grad()
    g_loss.backward()
    g_optim.step()
    if i % 8 == 0:
        fake, latents = generator(torch.randn(4, 4), return_latents=True)
        path_loss, mean_path = path_lengths(fake, latents, mean_path)
        generator.zero_grad()
        (2 * 8 * path_loss + 0 * fake[0, 0]).backward()
        g_optim.step()
    accumulate(g_ema, generator)
print(f"d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {r1.item():.4f} path {path_loss.item():.4f}")
