"""An out-of-memory stand-in strikes in mid-backward; the handler clears and goes on."""
import torch
from torch import nn


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, broken):
        ctx.broken = broken
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.broken:
            raise RuntimeError("out of memory (simulated)")
        return grad, None


torch.manual_seed(508)
first, second = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
failures = 0
optimizer.zero_grad()
for step in range(20):
    x = torch.randn(12, 4)
    try:
        hidden = Fragile.apply(torch.relu(first(x)), step % 6 == 4)
        loss = (second(hidden) - x[:, :1]).pow(2).mean()
        loss.backward()
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        failures += 1
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
print(f"failures {failures} loss {loss.item():.4f}")
