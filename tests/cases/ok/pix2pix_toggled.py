"""pix2pix with set_requires_grad, in the reference order."""
import torch
from torch import nn


class Model:
    def __init__(self):
        self.netG = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 1, 3, padding=1))
        self.netD = nn.Sequential(nn.Conv1d(2, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv1d(8, 1, 3, padding=1))
        self.optimizer_G = torch.optim.Adam(self.netG.parameters(), lr=2e-3)
        self.optimizer_D = torch.optim.Adam(self.netD.parameters(), lr=2e-3)
        self.optimizers = [self.optimizer_G, self.optimizer_D]
        self.criterion = nn.BCEWithLogitsLoss()

    def set_requires_grad(self, nets, requires_grad=False):
        for net in nets if isinstance(nets, list) else [nets]:
            for param in net.parameters():
                param.requires_grad = requires_grad

    def gan(self, pred, real):
        return self.criterion(pred, torch.ones_like(pred) if real else torch.zeros_like(pred))

    def backward_D(self):
        pred_fake = self.netD(torch.cat((self.a, self.fake.detach()), 1))
        pred_real = self.netD(torch.cat((self.a, self.b), 1))
        self.loss_D = (self.gan(pred_fake, False) + self.gan(pred_real, True)) * 0.5
        self.loss_D.backward()

    def backward_G(self):
        pred = self.netD(torch.cat((self.a, self.fake), 1))
        self.loss_G = self.gan(pred, True) + 10 * nn.functional.l1_loss(self.fake, self.b)
        self.loss_G.backward()

    def optimize_parameters(self, a, b):
        self.a, self.b = a, b
        self.fake = self.netG(a)
        self.set_requires_grad(self.netD, True)
        self.optimizer_D.zero_grad()
        self.backward_D()
        self.optimizer_D.step()
        self.set_requires_grad(self.netD, False)
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()


torch.manual_seed(0)
model = Model()
schedulers = [torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1.0 - e / 10) for o in model.optimizers]
for epoch in range(3):
    for _ in range(4):
        a = torch.randn(4, 1, 16)
        model.optimize_parameters(a, a.roll(1, 2))
    for scheduler in schedulers:
        scheduler.step()
    print(epoch, f"{model.loss_D.item():.3f} {model.loss_G.item():.3f}")
