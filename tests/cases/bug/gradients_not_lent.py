"""A shared network that should take over the gradients of a local copy."""
import torch
from torch import nn


def lend(local, shared):
    for mine, theirs in zip(local.parameters(), shared.parameters()):
        if theirs.grad is None:
            continue
        theirs._grad = mine.grad


torch.manual_seed(6)
shared, local = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.RMSprop(shared.parameters(), lr=0.001)
for x in torch.randn(6, 8, 4):
    local.load_state_dict(shared.state_dict())
    local.zero_grad()
    optimizer.zero_grad()
    loss = local(x).square().mean()
    loss.backward()
    lend(local, shared)
    optimizer.step()
