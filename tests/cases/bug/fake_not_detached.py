"""Image-like GAN on 8x8 stripes. Both optimizers are cleared at the top of the iteration."""
import torch
import torch.nn as nn


class Generator(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, z):
        return self.body(z).view(-1, 1, 8, 8)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, stride=2)
        self.out = nn.Linear(54, 1)

    def forward(self, img):
        return self.out(torch.relu(self.conv(img)).flatten(1))


def stripes(n):
    on = (torch.rand(n, 1, 1, 8) > 0.5).float()
    return on.expand(n, 1, 8, 8) * 0.9 + 0.05


torch.manual_seed(42)
G, C = Generator(), Critic()
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3)
opt_c = torch.optim.Adam(C.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
one, zero = torch.ones(16, 1), torch.zeros(16, 1)

for i in range(20):
    opt_g.zero_grad()
    fake = G(torch.randn(16, 8))
    c_loss = bce(C(stripes(16)), one) + bce(C(fake), zero)
    c_loss.backward()
    opt_c.step()
    opt_c.zero_grad()

    g_loss = bce(C(G(torch.randn(16, 8))), one)
    g_loss.backward()
    opt_g.step()
    opt_c.zero_grad()
print(f"critic {c_loss.item():.4f} generator {g_loss.item():.4f}")
