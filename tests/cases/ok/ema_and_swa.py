"""Exponential and stochastic weight averages beside a normal loop."""
import copy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay=0.95):
        self.shadow, self.decay = copy.deepcopy(model).eval(), decay
        self.shadow.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


def main(epochs=6, swa_start=3):
    torch.manual_seed(303)
    x = torch.randn(96, 4)
    y = x[:, :1] * x[:, 1:2]
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    ema, swa_model = EMA(model), AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=swa_start)
    swa_scheduler = SWALR(optimizer, swa_lr=0.01)
    for epoch in range(epochs):
        for xb, yb in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            optimizer.step()
            ema.update(model)
        if epoch >= swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
    update_bn(loader, swa_model)
    with torch.no_grad():
        for name, net in (("swa", swa_model.eval()), ("ema", ema.shadow)):
            print(name, f"{nn.functional.mse_loss(net(x), y).item():.4f}")


main()
