"""Batches whose loss is NaN are left out before backward."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(506)
x = torch.rand(80, 3)
x[[5, 33]] = float("nan")
y = torch.rand(80, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=10)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

for epoch in range(3):
    left_out = 0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb), yb)
        if math.isnan(loss.item()):
            left_out += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} left out {left_out} loss {loss.item():.4f}")
