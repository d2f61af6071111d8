"""Single-process DDP; the step is taken inside no_sync."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for update in range(4):
        optimizer.zero_grad()
        with model.no_sync():
            for _ in range(3):
                x = torch.randn(8, 4)
                loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean() / 3
                loss.backward()
            optimizer.step()
    print(f"{loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
