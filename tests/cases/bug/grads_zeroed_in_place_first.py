"""Helper that zeroes in place, called before the first backward."""
import torch
from torch import nn


def clear(params):
    for p in params:
        p.grad.zero_()


torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for step in range(5):
        x = torch.randn(8, 3)
        clear(model.parameters())
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
except AttributeError as error:
    print("stopped:", error)
