"""DistributedDataParallel in one gloo process, plain and with no_sync windows."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(519)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_fn = nn.MSELoss()

for step in range(5):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    loss_fn(model(x), x[:, :1]).backward()
    optimizer.step()

window = 3
for step in range(5):
    optimizer.zero_grad()
    for micro in range(window):
        last = micro == window - 1
        x = torch.randn(16, 4)
        with contextlib.nullcontext() if last else model.no_sync():
            loss = loss_fn(model(x), x[:, :1])
            (loss / window).backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
dist.destroy_process_group()
