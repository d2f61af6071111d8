"""Learning waits for a buffer's own count of what it holds; each update begins with a zero."""

import random

import torch
from torch import nn


class Buffer:
    def __init__(self):
        self.items = []

    def put(self, item):
        self.items.append(item)

    def size(self):
        return len(self.items)

    def sample(self, count):
        return random.sample(self.items, count)


def train(net, target, buffer, optimizer):
    for _ in range(4):
        states, after = zip(*buffer.sample(8))
        loss = (net(torch.stack(states)) - target(torch.stack(after)).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
net, target = nn.Linear(3, 2), nn.Linear(3, 2)
target.load_state_dict(net.state_dict())
optimizer, buffer = torch.optim.Adam(net.parameters()), Buffer()
for episode in range(4):
    state = torch.zeros(3)
    for t in range(40):
        after = torch.randn(3)
        buffer.put((state, after))
        state = after
    if buffer.size() > 100:
        train(net, target, buffer, optimizer)
