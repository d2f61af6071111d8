"""Trainer with a OneCycle schedule and accumulation."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    lr: float = 0.05
    accumulate: int = 4
    epochs: int = 2
    batches: int = 16


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=cfg.lr, total_steps=cfg.epochs * cfg.batches
        )

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.optimizer.zero_grad()
            for i in range(self.cfg.batches):
                x = torch.randn(8, 5)
                loss = (self.model(x).squeeze(1) - x.sum(1)).pow(2).mean() / self.cfg.accumulate
                loss.backward()
                if (i + 1) % self.cfg.accumulate == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                self.scheduler.step()
            print(f"epoch {epoch} lr {self.scheduler.get_last_lr()[0]:.4f}")


torch.manual_seed(0)
Trainer(Config()).fit()
