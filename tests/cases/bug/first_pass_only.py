"""Noise-prediction toy: learn to denoise a one-dimensional mixture at random noise levels."""
from types import SimpleNamespace

import torch
import torch.nn as nn

cfg = SimpleNamespace(lr=1e-3, steps=30, batch=64, levels=50, seed=17)


class NoiseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, x, level):
        return self.net(torch.cat([x, level], dim=1))


def main(cfg):
    torch.manual_seed(cfg.seed)
    alphas = torch.cumprod(1 - torch.linspace(1e-3, 0.1, cfg.levels), 0)
    net = NoiseNet()
    optim = torch.optim.AdamW(net.parameters(), lr=cfg.lr)
    for it in range(cfg.steps):
        x0 = torch.randn(cfg.batch, 1) * 0.2 + torch.sign(torch.randn(cfg.batch, 1))
        level = torch.randint(cfg.levels, (cfg.batch, 1))
        noise = torch.randn_like(x0)
        a = alphas[level]
        noisy = a.sqrt() * x0 + (1 - a).sqrt() * noise
        loss = nn.functional.mse_loss(net(noisy, level / cfg.levels), noise)
        if it == 0:
            optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"denoising loss {loss.item():.4f}")


main(cfg)
