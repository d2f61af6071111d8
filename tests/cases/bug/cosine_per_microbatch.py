"""Cosine schedule with accumulation; the learning rate is logged."""
import torch
from torch import nn


class Loop:
    def __init__(self, accum=4, total=48):
        self.net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optim, T_max=total)
        self.accum, self.total = accum, total

    def loss(self):
        x = torch.randn(8, 5)
        return nn.functional.mse_loss(self.net(x), x.prod(1, keepdim=True))

    def run(self):
        self.optim.zero_grad()
        for i in range(self.total):
            loss = self.loss() / self.accum
            loss.backward()
            if (i + 1) % self.accum == 0:
                self.optim.step()
                self.optim.zero_grad()
            self.schedule.step()
        return loss.item() * self.accum


torch.manual_seed(87)
loop = Loop()
print(f"loss {loop.run():.4f} rate {loop.schedule.get_last_lr()[0]:.5f}")
