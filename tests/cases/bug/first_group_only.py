"""Weights with decay, biases without: two parameter groups, cleared by hand."""
import torch
from torch import nn

torch.manual_seed(154)
model = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
weights = [p for p in model.parameters() if p.dim() > 1]
biases = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW([
    {"params": weights, "weight_decay": 0.01},
    {"params": biases, "weight_decay": 0.0},
], lr=5e-3)


def clear(group):
    for p in group["params"]:
        p.grad = None


for step in range(25):
    x = torch.randn(16, 7)
    clear(optimizer.param_groups[0])
    loss = nn.functional.mse_loss(model(x), x[:, :3].norm(dim=1, keepdim=True))
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
