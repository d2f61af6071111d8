"""Transformer-style ScheduledOptim wrapper; zero_grad is defined and never called."""
import torch
import torch.nn as nn


class ScheduledOptim:
    def __init__(self, optimizer, d_model, n_warmup_steps):
        self._optimizer = optimizer
        self.d_model, self.n_warmup_steps, self.n_steps = d_model, n_warmup_steps, 0

    def step_and_update_lr(self):
        self._update_learning_rate()
        self._optimizer.step()

    def zero_grad(self):
        self._optimizer.zero_grad()

    def _update_learning_rate(self):
        self.n_steps += 1
        lr = self.d_model**-0.5 * min(self.n_steps**-0.5, self.n_steps * self.n_warmup_steps**-1.5)
        for group in self._optimizer.param_groups:
            group["lr"] = lr


def train_epoch(model, data, optimizer):
    total = 0
    for src, tgt in data:
        pred = model(src)
        loss = nn.functional.cross_entropy(pred.transpose(1, 2), tgt)
        loss.backward()
        optimizer.step_and_update_lr()
        total += loss.item()
    return total / len(data)


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(10, 16), nn.Linear(16, 10))
data = [(t := torch.randint(0, 10, (4, 6)), t.roll(1, 1)) for _ in range(5)]
optimizer = ScheduledOptim(torch.optim.Adam(model.parameters(), betas=(0.9, 0.98)), 16, 10)
for epoch in range(2):
    print(epoch, f"{train_epoch(model, data, optimizer):.4f}")
