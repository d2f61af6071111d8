"""Optimizer-in-backward: every parameter is updated as soon as its gradient is ready."""
import torch
from torch import nn

torch.manual_seed(406)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer_dict = {p: torch.optim.Adam([p], lr=5e-3, foreach=False) for p in model.parameters()}


def optimizer_hook(parameter):
    optimizer_dict[parameter].step()
    optimizer_dict[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(optimizer_hook)

for step in range(40):
    x = torch.randn(32, 6)
    loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True).tanh())
    loss.backward()
    if step % 10 == 9:
        print(f"step {step + 1} loss {loss.item():.4f}")
assert all(p.grad is None for p in model.parameters())
