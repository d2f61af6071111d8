"""Parameter hooks and a histogram-like logger."""
from collections import defaultdict

import torch
from torch import nn


class GradLogger:
    def __init__(self, model):
        self.history = defaultdict(list)
        for name, p in model.named_parameters():
            p.register_hook(lambda g, name=name: self.history[name].append(g.norm().item()))
            p.register_post_accumulate_grad_hook(lambda p, name=name: self.history[name + "/acc"].append(p.grad.abs().max().item()))


def grad_norm(parameters):
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.detach().norm().item() ** 2
    return total**0.5


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
logger = GradLogger(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, nesterov=True, momentum=0.9)
for step in range(10):
    x = torch.randn(8, 4)
    loss = nn.functional.cross_entropy(model(x), (x[:, 1] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    norm = grad_norm(model.parameters())
    optimizer.step()
    after = grad_norm(model.parameters())
    assert norm == after
print(f"{norm:.4f}", {k: len(v) for k, v in logger.history.items()})
