"""A second stage joins the training after a warm-up."""
from types import SimpleNamespace

import torch
from torch import nn


def build(cfg):
    base = nn.Sequential(nn.Linear(5, cfg.width), nn.ReLU())
    head = nn.Linear(cfg.width, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=cfg.lr)
    return base, head, optimizer


def train(cfg):
    torch.manual_seed(155)
    base, head, optimizer = build(cfg)
    base.requires_grad_(False)
    for step in range(cfg.steps):
        if step == cfg.warmup:
            base.requires_grad_(True)
            optimizer.add_param_group({"params": base.parameters(), "lr": cfg.lr / 10})
        x = torch.randn(12, 5)
        head.zero_grad()
        loss = nn.functional.mse_loss(head(base(x)), x.cos().sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    return loss.item()


print(f"loss {train(SimpleNamespace(width=20, lr=0.01, steps=20, warmup=5)):.4f}")
