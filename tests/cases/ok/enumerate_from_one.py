"""enumerate(..., start=1) with a window plan computed beforehand."""
import torch
from torch import nn


def window_sizes(batches, size):
    full, rest = divmod(batches, size)
    return [size] * full + ([rest] if rest else [])


torch.manual_seed(114)
inputs = torch.randn(7, 10, 3)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optim = torch.optim.Adagrad(model.parameters(), lr=0.1)

for epoch in range(3):
    sizes = window_sizes(len(inputs), 3)
    w = filled = 0
    for i, x in enumerate(inputs, start=1):
        loss = (model(x) - x.prod(1, keepdim=True)).square().mean()
        (loss / sizes[w]).backward()
        filled += 1
        if filled == sizes[w]:
            optim.step()
            optim.zero_grad()
            w, filled = w + 1, 0
    print(f"epoch {epoch} batches {i} windows {w} loss {loss.item():.4f}")
