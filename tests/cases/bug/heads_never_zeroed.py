"""Two measures of one input: a trunk, a head for each measure, an optimizer for each head."""
import torch
from torch import nn


class Measures:
    def __init__(self, names):
        self.trunk = nn.Linear(4, 6)
        self.heads = nn.ModuleDict({name: nn.Linear(6, 1) for name in names})
        self.optimizer = torch.optim.Adam(self.trunk.parameters(), lr=0.01)
        self.head_optimizers = {
            name: torch.optim.SGD(head.parameters(), lr=0.01) for name, head in self.heads.items()
        }

    def learn(self, x, targets):
        self.optimizer.zero_grad()
        features = torch.relu(self.trunk(x))
        loss = sum(
            (self.heads[name](features) - targets[name]).square().mean() for name in self.heads
        )
        loss.backward()
        self.optimizer.step()
        for optimizer in self.head_optimizers.values():
            optimizer.step()


torch.manual_seed(3)
measures = Measures(["width", "height"])
for x in torch.randn(6, 8, 4):
    measures.learn(x, {"width": x[:, :1], "height": x[:, 1:2]})
