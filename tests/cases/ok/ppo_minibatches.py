"""PPO with shuffled minibatches, an entropy bonus and an early stop on the KL estimate."""
import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 24), nn.Tanh())
        self.actor, self.critic = nn.Linear(24, 3), nn.Linear(24, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


torch.manual_seed(213)
net = ActorCritic()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, eps=1e-5)
for iteration in range(4):
    optimizer.param_groups[0]["lr"] = 5e-3 * (1 - iteration / 4)
    with torch.no_grad():
        obs = torch.randn(96, 4)
        dist, values = net(obs)
        actions = dist.sample()
        logprobs = dist.log_prob(actions)
        returns = (actions == obs[:, :3].argmax(1)).float()
        adv = returns - values
    for epoch in range(4):
        for inds in torch.randperm(96).split(32):
            dist, value = net(obs[inds])
            logratio = dist.log_prob(actions[inds]) - logprobs[inds]
            ratio = logratio.exp()
            with torch.no_grad():
                approx_kl = ((ratio - 1) - logratio).mean()
            pg = torch.max(-adv[inds] * ratio, -adv[inds] * ratio.clamp(0.8, 1.2)).mean()
            loss = pg - 0.01 * dist.entropy().mean() + 0.5 * (value - returns[inds]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        if approx_kl > 0.03:
            break
    print(f"iteration {iteration} epochs {epoch + 1} return {returns.mean():.3f}")
