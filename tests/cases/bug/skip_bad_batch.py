"""A loop that survives bad batches, and forgets to clean up after them."""
import torch
from torch import nn

torch.manual_seed(164)
trunk = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
head = nn.Linear(16, 2)
optimizer = torch.optim.Adam([*trunk.parameters(), *head.parameters()], lr=1e-2)


def guard(grad):
    if grad.abs().max() > 0.5:
        raise RuntimeError("gradient out of range")
    return grad


def batches(n):
    for i in range(n):
        x = torch.randn(10, 6)
        yield x, (x[:, 0] > 0).long(), 50.0 if i in (4, 11) else 1.0


failed = 0
for x, y, weight in batches(20):
    features = trunk(x)
    features.register_hook(guard)
    loss = weight * nn.functional.cross_entropy(head(features), y)
    try:
        loss.backward()
    except RuntimeError as error:
        failed += 1
        print("skipped:", error)
        continue
    optimizer.step()
    optimizer.zero_grad()
print(f"{failed} batches failed, loss {loss.item():.4f}")
