"""Gradients dropped by hand with a helper in place of zero_grad."""
import torch
from torch import nn


def clear(params):
    for p in params:
        p.grad = None


def batches(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(size, 8, generator=g)
        yield x, (x[:, 0] * x[:, 1] > 0).float()


torch.manual_seed(104)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
params = list(model.parameters())
optimizer = torch.optim.RMSprop(params, lr=3e-3)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(3):
    seen = 0
    for x, y in batches(12, 24, seed=epoch):
        clear(params)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        seen += len(x)
    print(f"epoch {epoch} samples {seen} loss {loss.item():.4f}")
