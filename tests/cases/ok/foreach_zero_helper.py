"""Zeroing many gradients with one foreach call in a helper."""
import torch
from torch import nn


@torch.no_grad()
def zero_all(module):
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if grads:
        torch._foreach_zero_(grads)


def main(steps=40):
    torch.manual_seed(106)
    model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    for step in range(1, steps + 1):
        x = torch.randn(32, 10)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        zero_all(model)
        loss.backward()
        optimizer.step()
        if not step % 10:
            print(f"{step:3d} {loss.item():.4f}")


main()
