"""Two measures of one input: a trunk, a head for each measure, an optimizer for each head."""
import torch
from torch import nn


class Measures:
    def __init__(self, names):
        self.trunk = nn.Linear(4, 6)
        self.heads = nn.ModuleDict({name: nn.Linear(6, 1) for name in names})
        self.weights = nn.ParameterDict({name: nn.Parameter(torch.ones(1)) for name in names})
        self.optimizer = torch.optim.Adam(
            [*self.trunk.parameters(), *self.weights.parameters()], lr=0.01
        )
        self.head_optimizers = {
            name: torch.optim.SGD(self.heads[name].parameters(), lr=0.01) for name in self.heads
        }

    def learn(self, x, targets):
        for optimizer in (self.optimizer, *self.head_optimizers.values()):
            optimizer.zero_grad()
        features = torch.relu(self.trunk(x))
        loss = torch.zeros(())
        for name in self.heads:
            error = (self.heads[name](features) - targets[name]).square().mean()
            weight = self.weights[name].square() + 0.1
            loss = loss + (error / weight + weight).sum()
        loss.backward()
        self.optimizer.step()
        for optimizer in self.head_optimizers.values():
            optimizer.step()


torch.manual_seed(3)
measures = Measures(["width", "height"])
for x in torch.randn(6, 8, 4):
    measures.learn(x, {"width": x[:, :1], "height": x[:, 1:2]})
