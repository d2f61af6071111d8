"""Actor and critic in one agent class, on a one-dimensional control task."""
import torch
from torch import nn


class Agent:
    def __init__(self, lr):
        self.policy = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
        self.value = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.policy_optim = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.value_optim = torch.optim.Adam(self.value.parameters(), lr=lr)

    def q(self, s, a):
        return self.value(torch.cat([s, a], dim=-1))

    def update_value(self, s, a, r):
        loss = (self.q(s, a) - r).pow(2).mean()
        loss.backward()
        self.value_optim.step()
        self.value_optim.zero_grad()
        return loss.item()

    def update_policy(self, s):
        self.policy_optim.zero_grad()
        loss = -self.q(s, self.policy(s)).mean()
        loss.backward()
        self.policy_optim.step()
        return loss.item()

    def learn(self, steps):
        for _ in range(steps):
            s = torch.rand(32, 1) * 2 - 1
            a = self.policy(s).detach() + 0.3 * torch.randn(32, 1)
            r = -(s + a).abs()
            losses = self.update_value(s, a, r), self.update_policy(s)
        return losses


torch.manual_seed(43)
value_loss, policy_loss = Agent(lr=5e-3).learn(40)
print(f"value {value_loss:.4f} policy {policy_loss:.4f}")
