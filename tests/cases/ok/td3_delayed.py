"""TD3: twin critics in one optimizer, the actor moves every second update."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(211)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
critics = nn.ModuleList(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2))
actor_t, critics_t = copy.deepcopy(actor).requires_grad_(False), copy.deepcopy(critics).requires_grad_(False)
pi_optim = torch.optim.Adam(actor.parameters(), lr=1e-3)
q_optim = torch.optim.Adam(critics.parameters(), lr=1e-3)


def polyak(net, target, rho=0.95):
    with torch.no_grad():
        for p, q in zip(net.parameters(), target.parameters()):
            q.mul_(rho).add_(p, alpha=1 - rho)


def q_values(nets, s, a):
    sa = torch.cat([s, a], dim=1)
    return [q(sa) for q in nets]


for it in range(1, 25):
    s, a = torch.randn(32, 3), torch.rand(32, 1) * 2 - 1
    s2, r = s * 0.9, -(a - s[:, :1].tanh()).pow(2)
    with torch.no_grad():
        noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
        a2 = (actor_t(s2) + noise).clamp(-1, 1)
        backup = r + 0.9 * torch.min(*q_values(critics_t, s2, a2))
    q_loss = sum(F.mse_loss(q, backup) for q in q_values(critics, s, a))
    q_optim.zero_grad()
    q_loss.backward()
    q_optim.step()
    if it % 2 == 0:
        pi_loss = -q_values(critics, s, actor(s))[0].mean()
        pi_optim.zero_grad()
        pi_loss.backward()
        pi_optim.step()
        polyak(critics, critics_t)
        polyak(actor, actor_t)
print(f"q {q_loss.item():.4f} pi {pi_loss.item():.4f}")
