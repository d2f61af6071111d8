"""Learning waits until a counter says that the memory is full; then nothing is ever zeroed."""

import random

import torch
from torch import nn

CAPACITY, BATCH = 100, 16


class Agent:
    def __init__(self):
        self.net, self.target = nn.Linear(3, 2), nn.Linear(3, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.loss = nn.MSELoss()
        self.memory, self.stored = [], 0

    def store(self, state, reward, after):
        self.memory.append((state, reward, after))
        self.stored += 1

    def learn(self):
        states, rewards, after = zip(*random.sample(self.memory, BATCH))
        aim = torch.tensor(rewards) + self.target(torch.stack(after)).max(1)[0].detach()
        guess = self.net(torch.stack(states)).max(1)[0]
        self.loss(guess, aim).backward()
        self.optimizer.step()


torch.manual_seed(0)
agent = Agent()
for episode in range(3):
    state = torch.zeros(3)
    for t in range(60):
        after = torch.randn(3)
        agent.store(state, random.random(), after)
        state = after
        if agent.stored > CAPACITY:
            agent.learn()
