"""TD3 agent with delayed policy updates."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def mlp(i, o, act=None):
    layers = [nn.Linear(i, 24), nn.ReLU(), nn.Linear(24, o)]
    return nn.Sequential(*layers, *([act] if act else []))


class TD3:
    def __init__(self):
        self.actor, self.q1, self.q2 = mlp(3, 1, nn.Tanh()), mlp(4, 1), mlp(4, 1)
        self.targets = {k: copy.deepcopy(getattr(self, k)) for k in ("actor", "q1", "q2")}
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(list(self.q1.parameters()) + list(self.q2.parameters()), lr=1e-3)
        self.total_it = 0

    def train(self, s, a, r, s2):
        self.total_it += 1
        with torch.no_grad():
            noise = (torch.randn_like(a) * 0.2).clamp(-0.5, 0.5)
            a2 = (self.targets["actor"](s2) + noise).clamp(-1, 1)
            x2 = torch.cat([s2, a2], 1)
            y = r + 0.9 * torch.min(self.targets["q1"](x2), self.targets["q2"](x2))
        x = torch.cat([s, a], 1)
        critic_loss = F.mse_loss(self.q1(x), y) + F.mse_loss(self.q2(x), y)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        if self.total_it % 2 == 0:
            actor_loss = -self.q1(torch.cat([s, self.actor(s)], 1)).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            with torch.no_grad():
                for k, t in self.targets.items():
                    for p, tp in zip(getattr(self, k).parameters(), t.parameters()):
                        tp.mul_(0.995).add_(0.005 * p)
        return critic_loss.item()


torch.manual_seed(0)
agent = TD3()
for _ in range(10):
    s, a = torch.randn(16, 3), torch.rand(16, 1) * 2 - 1
    loss = agent.train(s, a, -(a - s[:, :1]).abs(), torch.randn(16, 3))
print(f"{loss:.4f}")
