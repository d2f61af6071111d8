"""Batches with broken inputs give NaN gradients, and their step is skipped."""
import torch
from torch import nn

torch.manual_seed(505)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
skipped = 0
for step in range(24):
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    if step % 7 == 3:
        x[0, 0] = float("nan")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    if torch.isfinite(norm):
        optimizer.step()
    else:
        skipped += 1
assert all(torch.isfinite(p).all() for p in model.parameters())
print(f"skipped {skipped} norm {norm.item():.4f}")
