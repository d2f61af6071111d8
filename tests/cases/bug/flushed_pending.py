"""Streaming regression that flushes what is pending at the end."""
import torch
from torch import nn


class Stream:
    def __init__(self, chunks):
        self.chunks = chunks

    def __iter__(self):
        for _ in range(self.chunks):
            x = torch.randn(10, 3)
            yield x, x.sin().sum(1, keepdim=True)


def consume(stream, model, optimizer, every=5):
    pending, updates = 0, 0
    optimizer.zero_grad()
    for x, y in stream:
        loss = nn.functional.mse_loss(model(x), y)
        (loss / every).backward()
        pending += 1
        if pending == every:
            optimizer.step()
            optimizer.zero_grad()
            pending, updates = 0, updates + 1
    if pending:
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
    return updates, loss.item()


torch.manual_seed(76)
net = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 1))
updates, value = consume(Stream(22), net, torch.optim.SGD(net.parameters(), lr=0.05))
print(f"{updates} updates, loss {value:.4f}")
