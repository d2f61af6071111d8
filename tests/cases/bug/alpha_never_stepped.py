"""Entropy-regularised policy with a learned temperature that never moves."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
log_alpha = torch.zeros(1, requires_grad=True)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-2)
target_entropy = 0.5

for update in range(15):
    obs = torch.randn(32, 4)
    dist = Categorical(logits=policy(obs))
    act = dist.sample()
    reward = (act == obs[:, :3].argmax(1)).float()
    alpha = log_alpha.exp().detach()
    policy_loss = -(dist.log_prob(act) * reward + alpha * dist.entropy()).mean()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()

    alpha_loss = (log_alpha * (dist.entropy().detach() - target_entropy)).mean()
    alpha_loss.backward()
print(f"alpha {log_alpha.exp().item():.3f} reward {reward.mean().item():.3f}")
