"""Interrupted after an epoch, resumed from disk by fresh objects; the schedule is fast-forwarded."""
import tempfile
from pathlib import Path

import torch
from torch import nn


def build():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return model, optimizer


def train(path, epochs, stop_after):
    model, optimizer = build()
    start = 0
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
        for group in optimizer.param_groups:
            group["lr"] = 0.05
            group.pop("initial_lr", None)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4], gamma=0.5)
    for _ in range(start):
        scheduler.step()
    for epoch in range(start, epochs):
        g = torch.Generator().manual_seed(epoch)
        for _ in range(5):
            x = torch.randn(16, 4, generator=g)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
        scheduler.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, path)
        if epoch + 1 == stop_after:
            break
    return loss.item(), scheduler.get_last_lr()[0]


torch.manual_seed(415)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "last.pt"
    print("first {:.4f} lr {:.4f}".format(*train(path, 5, stop_after=2)))
    print("resumed {:.4f} lr {:.4f}".format(*train(path, 5, stop_after=None)))
