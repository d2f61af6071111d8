"""BiGAN: generator and encoder share an optimizer; only G.zero_grad() is called."""
import itertools

import torch
from torch import nn


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x, z):
        return self.net(torch.cat([x, z], 1))


torch.manual_seed(0)
G, E, D = nn.Linear(2, 3), nn.Linear(3, 2), Disc()
opt_ge = torch.optim.Adam(itertools.chain(G.parameters(), E.parameters()), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
one, zero = torch.ones(16, 1), torch.zeros(16, 1)

for it in range(12):
    x, z = torch.randn(16, 3) + 1, torch.randn(16, 2)
    with torch.no_grad():
        fake_x, code = G(z), E(x)
    D.zero_grad()
    d_loss = bce(D(x, code), one) + bce(D(fake_x, z), zero)
    d_loss.backward()
    opt_d.step()

    G.zero_grad()
    ge_loss = bce(D(x, E(x)), zero) + bce(D(G(z), z), one)
    ge_loss.backward()
    opt_ge.step()
print(f"d {d_loss.item():.3f} ge {ge_loss.item():.3f}")
