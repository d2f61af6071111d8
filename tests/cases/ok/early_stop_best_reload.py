"""Early stopping with the best state in memory."""
import copy

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.bad, self.best, self.state = patience, 0, float("inf"), None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad, self.state = value, 0, copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


torch.manual_seed(0)
x, y = torch.randn(40, 4), torch.randn(40, 1)
vx, vy = torch.randn(20, 4), torch.randn(20, 1)
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
stopper = EarlyStopping()
for epoch in range(30):
    model.train()
    for bx, by in zip(x.split(10), y.split(10)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(bx), by)
        loss.backward()
        optimizer.step()
    if stopper(evaluate(model, vx, vy), model):
        break
model.load_state_dict(stopper.state)
print(epoch, f"{evaluate(model, vx, vy):.4f}")
