"""Pull micro-batches from an iterator by hand, four for an update."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def cycle(loader):
    while True:
        for batch in loader:
            yield batch


class Config:
    micro_batches = 4
    updates = 12
    lr = 0.05


def run(cfg):
    torch.manual_seed(26)
    x = torch.rand(96, 6) * 2 - 1
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] ** 2], dim=1)
    batches = cycle(DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True))
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    for update in range(cfg.updates):
        total = 0.0
        for _ in range(cfg.micro_batches):
            model.zero_grad()
            bx, by = next(batches)
            loss = nn.functional.smooth_l1_loss(model(bx), by) / cfg.micro_batches
            loss.backward()
            total += loss.item()
        optimizer.step()
    return total


print(f"window loss {run(Config):.5f}")
