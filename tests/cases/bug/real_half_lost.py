"""GAN for a skewed distribution; real and fake halves go through one helper."""
import torch
from torch import nn


class HalfSteps:
    def __init__(self):
        self.G = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1))
        self.D = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))
        self.opt = {
            "G": torch.optim.Adam(self.G.parameters(), lr=2e-3),
            "D": torch.optim.Adam(self.D.parameters(), lr=2e-3),
        }
        self.bce = nn.BCEWithLogitsLoss()

    def credit(self, who, samples, label):
        self.opt[who].zero_grad()
        logits = self.D(samples)
        loss = self.bce(logits, torch.full_like(logits, label))
        loss.backward()
        return loss.item()

    def round(self, real):
        fake = self.G(torch.randn(len(real), 3))
        d_real = self.credit("D", real, 0.9)
        d_fake = self.credit("D", fake.detach(), 0.0)
        self.opt["D"].step()
        g = self.credit("G", fake, 1.0)
        self.opt["G"].step()
        return d_real + d_fake, g


torch.manual_seed(28)
gan = HalfSteps()
for it in range(25):
    d, g = gan.round(torch.randn(32, 1).exp())
print(f"d {d:.4f} g {g:.4f}")
