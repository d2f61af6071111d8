"""Best weights kept in memory, restored when the loss rises, with a lower rate."""
import copy

import torch
from torch import nn

torch.manual_seed(510)
x = torch.randn(60, 5)
y = (2 * x[:, :1]).sin()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
best, best_state = float("inf"), None
rollbacks = 0

for epoch in range(12):
    for idx in torch.randperm(48).split(12):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[idx]), y[idx]).backward()
        optimizer.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(x[48:]), y[48:]).item()
    if val < best:
        best = val
        best_state = copy.deepcopy(model.state_dict())
    elif best_state is not None and val > 1.5 * best:
        model.load_state_dict(best_state)
        rollbacks += 1
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
model.load_state_dict(best_state)
print(f"best {best:.4f} rollbacks {rollbacks}")
