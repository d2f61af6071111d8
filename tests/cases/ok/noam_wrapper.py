"""A Noam-style wrapper that owns rate, step and zeroing."""
import torch
from torch import nn


class NoamOpt:
    def __init__(self, d_model, warmup, optimizer):
        self.optimizer, self.warmup, self.d_model = optimizer, warmup, d_model
        self._step = 0

    @property
    def rate(self):
        step = max(self._step, 1)
        return self.d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)

    def step(self):
        self._step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        self.optimizer.step()
        self.optimizer.zero_grad()


class LossCompute:
    def __init__(self, criterion, opt=None):
        self.criterion, self.opt = criterion, opt

    def __call__(self, out, target):
        loss = self.criterion(out, target)
        if self.opt is not None:
            loss.backward()
            self.opt.step()
        return loss.item()


def run_epoch(model, compute, batches):
    return sum(compute(model(x), y) for x, y in batches) / len(batches)


torch.manual_seed(405)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
data = [(x, x[:, :4].argmax(1)) for x in torch.randn(10, 16, 8)]
criterion = nn.CrossEntropyLoss()
opt = NoamOpt(32, 10, torch.optim.Adam(model.parameters(), lr=0, betas=(0.9, 0.98)))
for epoch in range(3):
    model.train()
    train = run_epoch(model, LossCompute(criterion, opt), data[:8])
    model.eval()
    with torch.no_grad():
        val = run_epoch(model, LossCompute(criterion), data[8:])
    print(f"epoch {epoch} train {train:.4f} val {val:.4f} rate {opt.rate:.4f}")
