"""The same loss is asked twice whether it is finite, and stepped both times."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in batches:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    if torch.isfinite(loss):
        optimizer.step()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    if torch.isfinite(loss):
        optimizer.step()
