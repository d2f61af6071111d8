"""A2C with n-step returns, shared network and hidden-state detaching."""
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRUCell(3, 16)
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, s, h):
        h = self.gru(s, h)
        return self.pi(h), self.v(h).squeeze(-1), h


def train(total_updates=8, n_steps=5, envs=4):
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, eps=1e-5)
    h, s = torch.zeros(envs, 16), torch.randn(envs, 3)
    for update in range(total_updates):
        logps, values, rewards, entropies = [], [], [], []
        for _ in range(n_steps):
            logits, v, h = net(s, h)
            dist = torch.distributions.Categorical(logits=logits)
            a = dist.sample()
            logps.append(dist.log_prob(a))
            entropies.append(dist.entropy())
            values.append(v)
            rewards.append((a == (s[:, 0] > 0).long()).float())
            s = torch.randn(envs, 3)
        with torch.no_grad():
            R = net(s, h)[1]
        policy_loss = value_loss = 0.0
        for i in reversed(range(n_steps)):
            R = rewards[i] + 0.99 * R
            adv = R - values[i]
            value_loss = value_loss + 0.5 * adv.pow(2).mean()
            policy_loss = policy_loss - (logps[i] * adv.detach()).mean() - 0.01 * entropies[i].mean()
        opt.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 40)
        opt.step()
        h = h.detach()
    print(f"{value_loss.item():.4f}")


train()
