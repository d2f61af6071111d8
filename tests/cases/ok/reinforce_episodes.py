"""REINFORCE with a moving baseline; one update per episode, gradients cleared after it."""
import torch
from torch import nn


def episode(policy, length=12):
    rewards, log_probs = [], []
    state = torch.randn(2)
    while len(rewards) < length:
        probs = policy(state)
        m = torch.distributions.Bernoulli(probs)
        action = m.sample()
        log_probs.append(m.log_prob(action))
        rewards.append(1.0 if bool(action) == bool(state.sum() > 0) else 0.0)
        state = torch.randn(2)
    return log_probs, rewards


def finish_episode(optimizer, log_probs, rewards, baseline):
    losses = [-lp * (r - baseline) for lp, r in zip(log_probs, rewards)]
    optimizer.zero_grad()
    torch.cat(losses).sum().backward()
    optimizer.step()


torch.manual_seed(215)
policy = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
baseline = 0.5
for i_episode in range(30):
    log_probs, rewards = episode(policy)
    finish_episode(optimizer, log_probs, rewards, baseline)
    baseline = 0.9 * baseline + 0.1 * sum(rewards) / len(rewards)
print(f"baseline {baseline:.3f}")
