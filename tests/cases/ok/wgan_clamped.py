"""WGAN with weight clamping; an inner loop of critic updates."""
import torch
from torch import nn


class WGAN:
    def __init__(self, n_critic=5, clip=0.05):
        self.g = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.c = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        self.opts = {
            "g": torch.optim.RMSprop(self.g.parameters(), lr=5e-3),
            "c": torch.optim.RMSprop(self.c.parameters(), lr=5e-3),
        }
        self.n_critic, self.clip = n_critic, clip

    def critic_update(self, real):
        with torch.no_grad():
            fake = self.g(torch.randn(len(real), 2))
        loss = self.c(fake).mean() - self.c(real).mean()
        self.opts["c"].zero_grad()
        loss.backward()
        self.opts["c"].step()
        for p in self.c.parameters():
            p.data.clamp_(-self.clip, self.clip)
        return loss.item()

    def generator_update(self, n):
        self.opts["g"].zero_grad()
        loss = -self.c(self.g(torch.randn(n, 2))).mean()
        loss.backward()
        self.opts["g"].step()
        return loss.item()


torch.manual_seed(204)
gan = WGAN()
for it in range(8):
    for _ in range(gan.n_critic):
        c = gan.critic_update(3 + torch.randn(32, 1))
    g = gan.generator_update(32)
print(f"critic {c:.4f} generator {g:.4f}")
