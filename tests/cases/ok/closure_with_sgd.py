"""step(closure) works with first-order optimizers too."""
import functools

import torch
from torch import nn


def evaluate(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


torch.manual_seed(402)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
w = torch.randn(4, 1)
for step in range(30):
    x = torch.randn(16, 4)
    loss = optimizer.step(functools.partial(evaluate, model, optimizer, x, x @ w))
print(f"loss {loss.item():.5f}")
