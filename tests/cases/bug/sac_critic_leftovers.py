"""Soft actor-critic on a bandit with a continuous action."""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 32), nn.ReLU())
        self.mu, self.log_std = nn.Linear(32, 1), nn.Linear(32, 1)

    def sample(self, obs):
        h = self.body(obs)
        dist = Normal(self.mu(h), self.log_std(h).clamp(-4, 1).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        return a, dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)


def q_net():
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))


class Agent:
    def __init__(self, alpha=0.1, tau=0.01):
        self.pi, self.q1, self.q2 = Policy(), q_net(), q_net()
        self.q1_t, self.q2_t = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=3e-3)
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=3e-3)
        self.alpha, self.tau = alpha, tau

    def update(self, obs, act, rew):
        with torch.no_grad():
            nxt, logp = self.pi.sample(obs)
            oa = torch.cat([obs, nxt], 1)
            target = rew + 0.5 * (torch.min(self.q1_t(oa), self.q2_t(oa)) - self.alpha * logp)
        oa = torch.cat([obs, act], 1)
        q_loss = F.mse_loss(self.q1(oa), target) + F.mse_loss(self.q2(oa), target)
        q_loss.backward()
        self.q_opt.step()
        self.q_opt.zero_grad()

        new, logp = self.pi.sample(obs)
        oa = torch.cat([obs, new], 1)
        pi_loss = (self.alpha * logp - torch.min(self.q1(oa), self.q2(oa))).mean()
        pi_loss.backward()
        self.pi_opt.step()
        self.pi_opt.zero_grad()
        for net, tgt in ((self.q1, self.q1_t), (self.q2, self.q2_t)):
            for p, tp in zip(net.parameters(), tgt.parameters()):
                tp.data.mul_(1 - self.tau).add_(p.data, alpha=self.tau)
        return q_loss.item(), pi_loss.item()


torch.manual_seed(8)
agent = Agent()
for step in range(20):
    obs = torch.randn(16, 3)
    with torch.no_grad():
        act, _ = agent.pi.sample(obs)
    rew = -(act - obs.mean(1, keepdim=True)).abs()
    q, p = agent.update(obs, act, rew)
print(f"q {q:.3f} pi {p:.3f}")
