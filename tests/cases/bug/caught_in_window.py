"""Skip micro-batches that run out of memory, inside a window."""
import torch
from torch import nn


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.too_big = x.abs().max().item() > limit
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.too_big:
            raise RuntimeError("out of memory (simulated)")
        return grad, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 10), nn.Linear(10, 1)

    def forward(self, x):
        return self.second(Fragile.apply(torch.relu(self.first(x)), 4.0))


torch.manual_seed(163)
model, accum, skipped = Net(), 4, 0
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
optimizer.zero_grad()
for i in range(24):
    x = torch.randn(6, 5) * (9 if i % 7 == 1 else 1)
    loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True)) / accum
    try:
        loss.backward()
    except RuntimeError:
        skipped += 1
    if (i + 1) % accum == 0:
        optimizer.step()
        optimizer.zero_grad()
print(f"skipped {skipped}, loss {loss.item() * accum:.4f}")
