"""pix2pix-like translation of 1-D signals; every network zeroes after its own step."""
import torch
from torch import nn


class UNet1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(1, 8, 4, 2, 1)
        self.up = nn.ConvTranspose1d(8, 1, 4, 2, 1)

    def forward(self, x):
        return self.up(torch.relu(self.down(x))) + x


class PatchD(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv1d(8, 1, 3, 1, 1))

    def forward(self, a, b):
        return self.net(torch.cat([a, b], 1))


class Pix2Pix:
    def __init__(self):
        self.netG, self.netD = UNet1d(), PatchD()
        self.optG = torch.optim.Adam(self.netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
        self.optD = torch.optim.Adam(self.netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
        self.gan = nn.BCEWithLogitsLoss()
        self.l1 = nn.L1Loss()

    def backward_D(self, a, b, fake):
        pred_fake = self.netD(a, fake.detach())
        pred_real = self.netD(a, b)
        loss = 0.5 * (self.gan(pred_fake, torch.zeros_like(pred_fake)) + self.gan(pred_real, torch.ones_like(pred_real)))
        loss.backward()
        self.optD.step()
        self.optD.zero_grad()
        return loss

    def backward_G(self, a, b, fake):
        pred = self.netD(a, fake)
        loss = self.gan(pred, torch.ones_like(pred)) + 10 * self.l1(fake, b)
        loss.backward()
        self.optG.step()
        self.optG.zero_grad()
        return loss

    def optimize_parameters(self, a, b):
        fake = self.netG(a)
        d = self.backward_D(a, b, fake)
        g = self.backward_G(a, b, fake)
        return d.item(), g.item()


torch.manual_seed(3)
model = Pix2Pix()
for it in range(12):
    a = torch.randn(4, 1, 16)
    b = a.cumsum(2) / 4
    d, g = model.optimize_parameters(a, b)
    if it % 4 == 3:
        print(f"it {it} D {d:.3f} G {g:.3f}")
