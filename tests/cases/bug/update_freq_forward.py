"""Trainer with an update frequency, in the style of translation toolkits."""
import torch
from torch import nn


class Trainer:
    def __init__(self, args, model, criterion):
        self.args = args
        self.model = model
        self.criterion = criterion
        self._optimizer = torch.optim.Adagrad(model.parameters(), lr=args["lr"])
        self.num_updates = 0

    def train_step(self, samples):
        losses = []
        for sample in samples:
            loss = self._forward(sample)
            self._backward(loss / len(samples))
            losses.append(loss.item())
        self._optimizer.step()
        self.num_updates += 1
        return sum(losses) / len(losses)

    def _forward(self, sample):
        self.model.train()
        self._optimizer.zero_grad()
        return self.criterion(self.model(sample["x"]), sample["y"])

    def _backward(self, loss):
        loss.backward()


def sample():
    x = torch.randn(8, 5)
    return {"x": x, "y": x.abs().sum(1, keepdim=True)}


torch.manual_seed(22)
net = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 1))
trainer = Trainer({"lr": 0.05, "update_freq": 4}, net, nn.MSELoss())
for update in range(15):
    value = trainer.train_step([sample() for _ in range(trainer.args["update_freq"])])
print(f"{trainer.num_updates} updates, loss {value:.4f}")
