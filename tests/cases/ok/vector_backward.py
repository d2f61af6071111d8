"""Backward with an explicit vector, and autograd.backward over a list of losses."""
import torch
from torch import nn

torch.manual_seed(611)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(15):
    x = torch.randn(16, 4)
    out = model(x)
    error = (out - x[:, :3]).detach()
    optimizer.zero_grad()
    out.backward(gradient=error / len(x))
    optimizer.step()
print(f"error {error.pow(2).mean().item():.4f}")

for step in range(15):
    x = torch.randn(16, 4)
    out = model(x)
    losses = [nn.functional.mse_loss(out[:, i], x[:, i]) for i in range(3)]
    optimizer.zero_grad()
    torch.autograd.backward(losses)
    optimizer.step()
print(f"loss {sum(l.item() for l in losses):.4f}")
