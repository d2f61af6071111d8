"""Linear probing that forgot to freeze: the clip norm covers the whole model."""
import torch
from torch import nn

torch.manual_seed(53)
backbone = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 16))
probe = nn.Linear(16, 3)
model = nn.Sequential(backbone, nn.GELU(), probe)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
targets = torch.randn(12, 3)


def batches(count):
    for _ in range(count):
        x = torch.randn(20, 12)
        yield x, (x @ targets).argmax(1)


seen = 0
for x, y in batches(25):
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
    optimizer.step()
    seen += len(x)
print(f"{seen} samples, loss {loss.item():.4f}, norm {norm.item():.4f}")
