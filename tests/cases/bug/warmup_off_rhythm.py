"""Linear warm-up over updates, with windows of three micro-batches pulled by next()."""
import itertools

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

WARMUP, WINDOW, UPDATES = 12, 3, 14

torch.manual_seed(89)
x = torch.randn(72, 6)
data = TensorDataset(x, x.cumsum(1))
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 6))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
warmup = LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / WARMUP))
source = itertools.chain.from_iterable(DataLoader(data, batch_size=6, shuffle=True) for _ in range(10))

updates = 0
while updates < UPDATES:
    optimizer.zero_grad()
    for _ in range(WINDOW):
        bx, by = next(source)
        loss = nn.functional.mse_loss(net(bx), by) / WINDOW
        loss.backward()
        warmup.step()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    updates += 1
print(f"loss {loss.item() * WINDOW:.4f} rate {warmup.get_last_lr()[0]:.4f}")
