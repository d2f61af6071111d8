"""A small accelerate-like wrapper: prepared optimizer whose calls are no-ops inside the window."""
from contextlib import contextmanager

import torch
from torch import nn


class State:
    def __init__(self, n):
        self.n, self.i, self.sync = n, 0, True


class PreparedOptimizer:
    def __init__(self, optimizer, state):
        self.optimizer, self.state = optimizer, state

    def step(self):
        if self.state.sync:
            self.optimizer.step()

    def zero_grad(self):
        if self.state.sync:
            self.optimizer.zero_grad()


class Accelerator:
    def __init__(self, gradient_accumulation_steps):
        self.state = State(gradient_accumulation_steps)

    def prepare(self, model, optimizer):
        return model, PreparedOptimizer(optimizer, self.state)

    @contextmanager
    def accumulate(self, model):
        self.state.i += 1
        self.state.sync = self.state.i % self.state.n == 0
        yield

    def backward(self, loss):
        (loss / self.state.n).backward()


torch.manual_seed(0)
accelerator = Accelerator(3)
net = nn.Linear(5, 2)
model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
for epoch in range(2):
    for _ in range(6):
        x = torch.randn(8, 5)
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, f"{loss.item():.4f}")
