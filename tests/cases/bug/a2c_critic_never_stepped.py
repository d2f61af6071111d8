"""Advantage actor-critic with separate nets; critic_optimizer.step() is missing."""
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
opts = {
    "actor": torch.optim.Adam(actor.parameters(), lr=1e-2),
    "critic": torch.optim.Adam(critic.parameters(), lr=1e-2),
}

for episode in range(10):
    obs = torch.randn(20, 3)
    dist = Categorical(logits=actor(obs))
    act = dist.sample()
    ret = (act.float() * obs.sum(1))
    value = critic(obs).squeeze(1)
    adv = ret - value.detach()
    actor_loss = -(dist.log_prob(act) * adv).mean()
    critic_loss = nn.functional.smooth_l1_loss(value, ret)
    opts["actor"].zero_grad()
    opts["critic"].zero_grad()
    actor_loss.backward()
    critic_loss.backward()
    opts["actor"].step()
    if episode % 5 == 4:
        print(episode, f"{ret.mean().item():.3f} {critic_loss.item():.3f}")
