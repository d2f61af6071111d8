"""Virtual adversarial training whose search comes after the backward of the labels' loss."""
import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, rounds):
        self.model, self.optimizer, self.rounds = model, optimizer, rounds

    def fit(self, data):
        for x, y in data:
            logits = self.model(x)
            self.optimizer.zero_grad()
            loss = F.cross_entropy(logits, y)
            loss.backward()
            worst = self.worst_direction(x, logits.detach())
            smooth = self.distance(self.model(x + 0.3 * worst), logits.detach())
            smooth.backward()
            self.optimizer.step()
        return loss.item() + smooth.item()

    def worst_direction(self, x, logits):
        d = self._unit(torch.randn(x.shape))
        for _ in range(self.rounds):
            d.requires_grad_()
            self.distance(self.model(x + 1e-2 * d), logits).backward()
            d = self._unit(d.grad)
            self.model.zero_grad()
        return d

    def distance(self, found, wanted):
        return (F.softmax(found, dim=1) - F.softmax(wanted, dim=1)).square().mean()

    def _unit(self, d):
        d /= 1e-12 + d.norm(dim=1, keepdim=True)
        return d


torch.manual_seed(0)
points = torch.randn(96, 5)
labels = (points[:, 0] > points[:, 1]).long()
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
trainer = Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), rounds=2)
for epoch in range(3):
    print(trainer.fit(list(zip(points.split(16), labels.split(16)))))
