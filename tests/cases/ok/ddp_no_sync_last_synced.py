"""Single-process DDP with no_sync on all but the last micro-batch."""
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    accum = 3
    for i in range(9):
        x = torch.randn(8, 4)
        last = (i + 1) % accum == 0
        with nullcontext() if last else model.no_sync():
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / accum
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    print(f"{loss.item() * accum:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
