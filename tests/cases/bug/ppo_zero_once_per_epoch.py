"""PPO where the zeroing slipped one loop too far out."""
import torch
from torch import nn
from torch.distributions import Categorical

cfg = dict(horizon=64, minibatch=16, epochs=3, clip=0.2, lr=3e-3, iterations=3)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.pi, self.v = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def collect(net):
    s = torch.randn(cfg["horizon"], 4)
    with torch.no_grad():
        dist, v = net(s)
        a = dist.sample()
        r = (a == s[:, :3].argmax(1)).float()
    return s, a, dist.log_prob(a), r, r - v


def update(net, optimizer, batch):
    s, a, old, ret, adv = batch
    for _ in range(cfg["epochs"]):
        optimizer.zero_grad()
        for idx in torch.randperm(len(s)).split(cfg["minibatch"]):
            dist, v = net(s[idx])
            ratio = (dist.log_prob(a[idx]) - old[idx]).exp()
            surr = torch.min(ratio * adv[idx], ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"]) * adv[idx])
            loss = -surr.mean() + 0.5 * (v - ret[idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
    return loss.item()


torch.manual_seed(5)
net = ActorCritic()
optimizer = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
for it in range(cfg["iterations"]):
    print(it, f"{update(net, optimizer, collect(net)):.4f}")
