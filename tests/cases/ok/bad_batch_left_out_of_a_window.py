import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer.zero_grad()
for i, (x, y) in enumerate(batches):
    loss = F.mse_loss(model(x), y)
    if not torch.isfinite(loss):
        continue
    (loss / 2).backward()
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
