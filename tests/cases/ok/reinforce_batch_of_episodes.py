"""REINFORCE: one backward per episode, one step per five episodes, sums divided once."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
update_every = 5
running = 0.0

for episode in range(1, 31):
    obs = torch.randn(10, 3)
    dist = Categorical(logits=policy(obs))
    action = dist.sample()
    reward = (action == (obs.sum(1) > 0).long()).float()
    returns = reward.flip(0).cumsum(0).flip(0) - 2.5
    policy_loss = torch.stack([-lp * R for lp, R in zip(dist.log_prob(action), returns)]).sum()
    (policy_loss / update_every).backward()
    running = 0.9 * running + 0.1 * reward.mean().item()
    if episode % update_every == 0:
        optimizer.step()
        optimizer.zero_grad()
print(f"running {running:.3f}")
