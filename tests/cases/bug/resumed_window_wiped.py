"""Pick up an accumulation window from a file."""
import tempfile
from pathlib import Path

import torch
from torch import nn


class Job:
    def __init__(self, accum=4):
        self.model = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.accum, self.position = accum, 0

    def save(self, path):
        torch.save({
            "weights": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "pending": [p.grad for p in self.model.parameters()],
            "position": self.position,
        }, path)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        for p, g in zip(self.model.parameters(), state["pending"]):
            p.grad = g
        self.position = state["position"]

    def fit(self, batches, stop):
        self.optimizer.zero_grad()
        while self.position < stop:
            x, y = batches[self.position]
            loss = nn.functional.mse_loss(self.model(x), y) / self.accum
            loss.backward()
            self.position += 1
            if self.position % self.accum == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return loss.item()


torch.manual_seed(125)
batches = [(x, x.mean(1, keepdim=True)) for x in torch.randn(16, 8, 5)]
with tempfile.TemporaryDirectory() as folder:
    first = Job()
    first.fit(batches, stop=6)
    first.save(Path(folder) / "job.pt")
    second = Job()
    second.load(Path(folder) / "job.pt")
    print(f"loss {second.fit(batches, stop=16):.5f}")
