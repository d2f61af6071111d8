"""Learning-rate search: the optimizer is made before the model is copied."""
import copy

import torch
from torch import nn

torch.manual_seed(0)
template = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
results = {}


def run(lr, steps=8):
    optimizer = torch.optim.Adam(template.parameters(), lr=lr)
    model = copy.deepcopy(template)
    for _ in range(steps):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    return loss.item()


for lr in (1e-3, 1e-2):
    results[lr] = run(lr)
print({k: round(v, 3) for k, v in results.items()})
