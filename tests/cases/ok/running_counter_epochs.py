"""Ten batches an epoch in windows of six: the counter never restarts, and 30 divides."""
import torch
from torch import nn

torch.manual_seed(0)
data = [torch.randn(8, 4) for _ in range(10)]
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
accumulate, n_iter = 6, 0
optimizer.zero_grad()
for epoch in range(3):
    for x in data:
        n_iter += 1
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / accumulate
        loss.backward()
        if n_iter % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, f"{loss.item() * accumulate:.4f}")
