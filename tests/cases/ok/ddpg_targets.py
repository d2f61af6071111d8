"""DDPG with target networks moved by polyak averaging."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class DDPG:
    def __init__(self, tau=0.05, gamma=0.9):
        self.actor = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), weight_decay=1e-2)
        self.tau, self.gamma = tau, gamma

    def train(self, state, action, next_state, reward):
        target_q = self.critic_target(torch.cat([next_state, self.actor_target(next_state)], 1))
        target_q = reward + (self.gamma * target_q).detach()
        current_q = self.critic(torch.cat([state, action], 1))
        critic_loss = F.mse_loss(current_q, target_q)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actor_loss = -self.critic(torch.cat([state, self.actor(state)], 1)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        for net, target in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
            for p, tp in zip(net.parameters(), target.parameters()):
                tp.data.copy_(self.tau * p.data + (1 - self.tau) * tp.data)
        return critic_loss.item(), actor_loss.item()


torch.manual_seed(210)
agent = DDPG()
for _ in range(25):
    s, a = torch.randn(32, 2), torch.rand(32, 1) * 2 - 1
    losses = agent.train(s, a, s + 0.1 * a, -(s.sum(1, keepdim=True) + a).abs())
print("critic {:.4f} actor {:.4f}".format(*losses))
