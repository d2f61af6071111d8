"""Data-parallel accumulation on one gloo process."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main(accum=3, windows=5):
    torch.manual_seed(131)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for window in range(windows):
        optimizer.zero_grad()
        with model.no_sync():
            for _ in range(accum):
                x = torch.randn(8, 6)
                loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / accum
                loss.backward()
        optimizer.step()
    dist.destroy_process_group()
    print(f"loss {loss.item() * accum:.4f}")


if __name__ == "__main__":
    main()
