"""Actor and critic share a trunk that both optimizers own."""
import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.pi = nn.Linear(16, 2)
        self.v = nn.Linear(16, 1)


torch.manual_seed(208)
agent = Agent()
actor = torch.optim.Adam([*agent.trunk.parameters(), *agent.pi.parameters()], lr=3e-3)
critic = torch.optim.Adam([*agent.trunk.parameters(), *agent.v.parameters()], lr=3e-3)

for episode in range(25):
    obs = torch.randn(20, 4)
    dist = Categorical(logits=agent.pi(agent.trunk(obs)))
    act = dist.sample()
    reward = (act == (obs[:, 0] > 0).long()).float()

    value = agent.v(agent.trunk(obs)).squeeze(1)
    adv = reward - value.detach()
    actor_loss = -(dist.log_prob(act) * adv).mean()
    actor.zero_grad()
    actor_loss.backward()
    actor.step()

    critic_loss = nn.functional.mse_loss(agent.v(agent.trunk(obs)).squeeze(1), reward)
    critic.zero_grad()
    critic_loss.backward()
    critic.step()
print(f"reward {reward.mean():.2f} critic {critic_loss.item():.4f}")
