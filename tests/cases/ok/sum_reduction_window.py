"""Sums over the whole window, with a learning rate meant for sums."""
import types

import torch
from torch import nn

torch.manual_seed(116)
cfg = types.SimpleNamespace(lr=2e-3, window=5, micro=8, updates=15)
ns = types.SimpleNamespace()
ns.model = nn.Linear(6, 2)
ns.opt = torch.optim.SGD(ns.model.parameters(), lr=cfg.lr)
ns.loss_fn = nn.CrossEntropyLoss(reduction="sum")

for update in range(cfg.updates):
    ns.opt.zero_grad()
    total = 0.0
    for _ in range(cfg.window):
        x = torch.randn(cfg.micro, 6)
        loss = ns.loss_fn(ns.model(x), (x[:, 0] > x[:, 1]).long())
        loss.backward()
        total += loss.item()
    ns.opt.step()
    if update % 5 == 4:
        print(f"update {update + 1} mean loss {total / (cfg.window * cfg.micro):.4f}")
