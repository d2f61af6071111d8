"""Several data sources take turns; each batch uses one of three heads."""
import itertools

import torch
from torch import nn


class MultiHead(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
        self.heads = nn.ModuleDict({task: nn.Linear(16, 1) for task in tasks})

    def forward(self, x, task):
        return self.heads[task](self.body(x))


def source(fn):
    while True:
        x = torch.randn(16, 4)
        yield x, fn(x).unsqueeze(1)


torch.manual_seed(511)
sources = {
    "sum": source(lambda x: x.sum(1)),
    "max": source(lambda x: x.max(1).values),
    "norm": source(lambda x: x.norm(dim=1)),
}
model = MultiHead(sources)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = {}
for step, task in enumerate(itertools.islice(itertools.cycle(["sum", "sum", "max", "norm"]), 32)):
    x, y = next(sources[task])
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x, task), y)
    loss.backward()
    optimizer.step()
    losses[task] = round(loss.item(), 4)
print(losses)
