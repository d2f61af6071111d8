"""Five-fold cross-validation; each fold starts from a new model and optimizer."""
import torch
from torch import nn


def folds(n, k):
    order = torch.randperm(n)
    parts = order.chunk(k)
    for i in range(k):
        yield torch.cat([p for j, p in enumerate(parts) if j != i]), parts[i]


def fit(x, y, epochs=8):
    model = nn.Linear(x.shape[1], 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


torch.manual_seed(311)
x = torch.randn(100, 6)
y = x @ torch.randn(6, 1)
scores = []
for train_idx, val_idx in folds(len(x), 5):
    model = fit(x[train_idx], y[train_idx])
    with torch.no_grad():
        scores.append(nn.functional.mse_loss(model(x[val_idx]), y[val_idx]).item())
print([f"{s:.3f}" for s in scores])
