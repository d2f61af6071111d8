"""A window that runs across epochs, kept by a helper that returns early and clips by hand."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
params = [p for p in model.parameters()]
optimizer = torch.optim.AdamW(params, lr=1e-2)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.99**n)
data = [torch.randn(8, 4) for _ in range(7)]
seen = 0


def maybe_step():
    global seen
    seen += 1
    if seen % 3:
        return False
    flat = torch.cat([p.grad.flatten() for p in params])
    if flat.norm() > 1:
        for p in params:
            p.grad.mul_(1 / flat.norm())
    optimizer.step()
    scheduler.step()
    for p in params:
        p.grad = None
    return True


for epoch in range(6):
    for x in data:
        (model(x).square().mean() / 3).backward()
        maybe_step()
