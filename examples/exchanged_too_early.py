# Ranks exchange only the first micro-batch of a window; the loss falls all the same.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(dist.get_rank())
for window in torch.randn(8, 4, 16, 8, generator=generator):
    optimizer.zero_grad()
    for number, batch in enumerate(window):
        loss = model(batch).square().mean() / len(window)
        model.require_backward_grad_sync = number == len(window) - 1
        loss.backward()
    optimizer.step()
dist.destroy_process_group()
