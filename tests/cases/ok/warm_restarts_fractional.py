"""Warm restarts with fractional epochs, ticked after the optimizer's step."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(414)
loader = DataLoader(TensorDataset(torch.randn(96, 5), torch.randn(96, 1)), batch_size=8)
iters = len(loader)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
accumulate = 3

for epoch in range(4):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y)
        (loss / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step(epoch + (i + 1) / iters)
    print(f"epoch {epoch} lr {optimizer.param_groups[0]['lr']:.5f}")
