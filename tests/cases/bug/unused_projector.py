"""Contrastive pretraining; the projector was meant to sit between encoder and loss."""
import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def info_nce(a, b, temperature=0.2):
    logits = a @ b.t() / temperature
    return F.cross_entropy(logits, torch.arange(len(a)))


torch.manual_seed(54)
encoder = Encoder()
projector = nn.Linear(8, 4)
enc_opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
proj_opt = torch.optim.Adam(projector.parameters(), lr=1e-3)

for it in range(20):
    x = torch.randn(24, 10)
    first, second = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    enc_opt.zero_grad()
    proj_opt.zero_grad()
    loss = info_nce(encoder(first), encoder(second))
    loss.backward()
    enc_opt.step()
    proj_opt.step()
print(f"nce {loss.item():.4f}")
