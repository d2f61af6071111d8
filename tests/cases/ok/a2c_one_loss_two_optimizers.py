"""Advantage actor-critic: one summed loss, one backward, two optimizers."""
import torch
from torch import nn

torch.manual_seed(209)
policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
value = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
opts = [torch.optim.Adam(policy.parameters(), lr=3e-3), torch.optim.Adam(value.parameters(), lr=1e-2)]


def play(length=15):
    obs, logps, values, rewards = torch.randn(3), [], [], []
    for _ in range(length):
        dist = torch.distributions.Categorical(logits=policy(obs))
        action = dist.sample()
        logps.append(dist.log_prob(action))
        values.append(value(obs).squeeze())
        rewards.append(float(obs.argmax() == action))
        obs = torch.randn(3)
    return torch.stack(logps), torch.stack(values), rewards


for update in range(15):
    logps, values, rewards = play()
    returns, run = [], 0.0
    for r in reversed(rewards):
        run = r + 0.5 * run
        returns.insert(0, run)
    advantage = torch.tensor(returns) - values
    loss = -(logps * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
    for o in opts:
        o.zero_grad()
    loss.backward()
    [o.step() for o in opts]
    if update % 5 == 4:
        print(f"update {update + 1} loss {loss.item():.4f} reward {sum(rewards)}")
