"""The counter starts again at the step; each window is one batch, the last."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = 2
for x, y in batches:
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    count -= 1
    if count == 1:
        optimizer.step()
        count = 2
