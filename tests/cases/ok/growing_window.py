"""Batch-size ramp by accumulation."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
schedule = {0: 1, 1: 2, 2: 4}
for epoch in range(3):
    accum = schedule[epoch]
    optimizer.zero_grad()
    for i in range(16):
        x = torch.randn(4, 4)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        (loss / accum).backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, accum, f"{loss.item():.4f}")
