"""Data-parallel training that picks the wrong micro-batch for the all-reduce."""
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUM = 4


class Runner:
    def __init__(self, module):
        self.model = DistributedDataParallel(module)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def micro_step(self, i, x, y):
        sync_now = i % ACCUM == 0
        context = nullcontext() if sync_now else self.model.no_sync()
        with context:
            loss = nn.functional.cross_entropy(self.model(x), y) / ACCUM
            loss.backward()
        if (i + 1) % ACCUM == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item() * ACCUM


torch.manual_seed(132)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
runner = Runner(nn.Linear(5, 2))
for i in range(16):
    x = torch.randn(8, 5)
    value = runner.micro_step(i, x, (x[:, 1] > 0).long())
dist.destroy_process_group()
print(f"loss {value:.4f}")
