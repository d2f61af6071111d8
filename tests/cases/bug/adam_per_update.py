"""REINFORCE agent whose learn() builds its optimizer."""
import torch
from torch import nn
from torch.distributions import Categorical


class Agent:
    def __init__(self, lr=1e-2):
        self.policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.lr = lr

    def act(self, obs):
        dist = Categorical(logits=self.policy(obs))
        a = dist.sample()
        return a, dist.log_prob(a)

    def learn(self, log_probs, returns):
        optimizer = torch.optim.Adam(self.policy.parameters(), lr=self.lr)
        optimizer.zero_grad()
        loss = -(log_probs * (returns - returns.mean())).sum()
        loss.backward()
        optimizer.step()
        return loss.item()


torch.manual_seed(0)
agent = Agent()
for episode in range(20):
    obs = torch.randn(12, 4)
    a, logp = agent.act(obs)
    reward = (a == (obs[:, 0] > 0).long()).float()
    loss = agent.learn(logp, reward.flip(0).cumsum(0).flip(0))
print(f"{loss:.4f}")
