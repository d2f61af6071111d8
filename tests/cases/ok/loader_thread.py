"""A prefetching thread feeds a queue; the main thread trains."""
import queue
import threading

import torch
from torch import nn


def produce(q, n):
    g = torch.Generator().manual_seed(520)
    for _ in range(n):
        x = torch.randn(16, 5, generator=g)
        q.put((x, x.median(1, keepdim=True).values))
    q.put(None)


def main():
    torch.manual_seed(520)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    q = queue.Queue(maxsize=4)
    worker = threading.Thread(target=produce, args=(q, 25), daemon=True)
    worker.start()
    while (item := q.get()) is not None:
        x, y = item
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    worker.join()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
