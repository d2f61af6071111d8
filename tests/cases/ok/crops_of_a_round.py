"""The crops that a round makes of its image are one batch, in a loop without a loader."""
import torch
from torch import nn

torch.manual_seed(44)
model = nn.Conv2d(3, 1, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    crops = torch.randn(4, 2, 3, 8, 8)
    optimizer.zero_grad()
    for crop in crops:
        model(crop).square().mean().backward()
    optimizer.step()
