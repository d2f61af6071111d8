"""Collect losses, then one backward over their mean; the tail is flushed."""
import torch
from torch import nn


class Collector:
    def __init__(self, optimizer, size):
        self.optimizer, self.size, self.losses = optimizer, size, []

    def add(self, loss):
        self.losses.append(loss)
        if len(self.losses) == self.size:
            self.flush()

    def flush(self):
        if not self.losses:
            return
        self.optimizer.zero_grad()
        torch.stack(self.losses).mean().backward()
        self.optimizer.step()
        self.losses.clear()


torch.manual_seed(613)
trees = [torch.randn(int(n), 3) for n in torch.randint(2, 9, (22,))]
model = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 1))
collector = Collector(torch.optim.Adam(model.parameters(), lr=0.02), size=5)
for epoch in range(3):
    for tree in trees:
        loss = (model(tree).sum() - tree.sum()).abs()
        collector.add(loss)
    collector.flush()
    print(f"epoch {epoch} loss {loss.item():.4f}")
