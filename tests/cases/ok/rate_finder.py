"""Learning-rate range test, weights restored in memory, then normal training."""
import copy

import torch
from torch import nn

torch.manual_seed(607)
x = torch.randn(160, 5)
y = x[:, :1] + 0.3 * x[:, 1:2].pow(2)


def batches():
    for idx in torch.randperm(len(x)).split(20):
        yield x[idx], y[idx]


def range_test(model, optimizer, low=1e-3, high=1.0):
    saved = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    curve = []
    lrs = torch.logspace(torch.tensor(low).log10(), torch.tensor(high).log10(), 8).tolist()
    for lr, (xb, yb) in zip(lrs, batches()):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        curve.append((loss.item(), lr))
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    return min(curve)[1] / 10


model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
suggested = range_test(model, optimizer)
optimizer.param_groups[0]["lr"] = suggested
for epoch in range(3):
    for xb, yb in batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
print(f"rate {suggested:.4f} loss {loss.item():.4f}")
