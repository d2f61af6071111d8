"""Online learner: each call of learn() sees one batch."""
import torch
from torch import nn


class OnlineLearner:
    def __init__(self, size):
        self.net = nn.Sequential(nn.Linear(size, 20), nn.ReLU(), nn.Linear(20, 1))

    def learn(self, x, y):
        opt = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9)
        loss = nn.functional.mse_loss(self.net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()


def stream(n):
    for _ in range(n):
        x = torch.rand(10, 3)
        yield x, x.prod(1, keepdim=True)


def main():
    torch.manual_seed(162)
    learner = OnlineLearner(3)
    losses = [learner.learn(x, y) for x, y in stream(30)]
    print(f"first {losses[0]:.4f} last {losses[-1]:.4f}")


main()
