"""The body is thawed at once, and an optimizer for it comes an epoch later."""
import torch
from torch import nn

torch.manual_seed(49)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model[0].requires_grad_(False)
x, y = torch.randn(5, 8, 4), torch.randn(5, 8, 1)
for epoch in range(3):
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(wanted, lr=0.01)
    if epoch == 1:
        model[0].requires_grad_(True)
    for inputs, targets in zip(x, y):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
