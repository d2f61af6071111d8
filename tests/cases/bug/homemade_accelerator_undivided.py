"""A small accelerate-like wrapper: it counts, gates and forgets to divide."""
import contextlib

import torch
from torch import nn


class MiniAccelerator:
    def __init__(self, gradient_accumulation_steps=1):
        self.n = gradient_accumulation_steps
        self.micro = 0
        self.sync_gradients = True

    @contextlib.contextmanager
    def accumulate(self):
        self.micro += 1
        self.sync_gradients = self.micro % self.n == 0
        yield

    def backward(self, loss):
        loss.backward()


torch.manual_seed(0)
accelerator = MiniAccelerator(gradient_accumulation_steps=4)
model = nn.Linear(6, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(2):
    for _ in range(8):
        x = torch.randn(4, 6)
        with accelerator.accumulate():
            loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                optimizer.step()
                optimizer.zero_grad()
    print(epoch, f"{loss.item():.4f}")
