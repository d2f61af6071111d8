"""BYOL: online and target networks, EMA after each step, warmup lambda."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.predictor = nn.Linear(8, 8)

    def forward(self, x):
        return self.predictor(self.encoder(x))


def regression(p, z):
    return 2 - 2 * F.cosine_similarity(p, z.detach(), dim=-1).mean()


class BYOL:
    def __init__(self):
        self.online = Online()
        self.target = copy.deepcopy(self.online.encoder)
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.opt = torch.optim.AdamW(self.online.parameters(), lr=3e-3)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min(1.0, (s + 1) / 5))

    def train_step(self, x):
        v1, v2 = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
        loss = (regression(self.online(v1), self.target(v2)) + regression(self.online(v2), self.target(v1))) / 2
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sched.step()
        self.ema()
        return loss.item()

    @torch.no_grad()
    def ema(self, tau=0.98):
        for t, o in zip(self.target.parameters(), self.online.encoder.parameters()):
            t.lerp_(o, 1 - tau)


torch.manual_seed(0)
byol = BYOL()
for step in range(12):
    loss = byol.train_step(torch.randn(16, 8))
print(f"{loss:.4f}")
