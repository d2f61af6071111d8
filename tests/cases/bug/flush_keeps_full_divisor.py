"""`or i + 1 == len(batches)` flushes the tail, divided as if it were full."""
import torch
from torch import nn


def get_batches(n):
    return [torch.randn(8, 4) for _ in range(n)]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = get_batches(7)
accum = 3
for epoch in range(2):
    optimizer.zero_grad()
    for i, x in enumerate(batches):
        loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True))
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, f"{loss.item():.4f}")
