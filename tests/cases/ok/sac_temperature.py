"""SAC with a learnt temperature; critic parameters are frozen during the policy update."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal

torch.manual_seed(212)
pi = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 2))
q1, q2 = (nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1)) for _ in range(2))
q_params = list(q1.parameters()) + list(q2.parameters())
log_alpha = torch.zeros(1, requires_grad=True)
optim = {
    "q": torch.optim.Adam(q_params, lr=3e-3),
    "pi": torch.optim.Adam(pi.parameters(), lr=3e-3),
    "alpha": torch.optim.Adam([log_alpha], lr=3e-3),
}


def sample(s):
    mean, log_std = pi(s).chunk(2, dim=1)
    dist = Normal(mean, log_std.clamp(-4, 1).exp())
    u = dist.rsample()
    return u.tanh(), dist.log_prob(u) - torch.log(1 - u.tanh().pow(2) + 1e-6)


def update(name, loss):
    optim[name].zero_grad()
    loss.backward()
    optim[name].step()
    return loss.item()


for step in range(20):
    s, a = torch.randn(32, 2), torch.rand(32, 1) * 2 - 1
    r = -(a - s[:, :1].tanh()).abs()
    sa = torch.cat([s, a], 1)
    lq = update("q", F.mse_loss(q1(sa), r) + F.mse_loss(q2(sa), r))
    for p in q_params:
        p.requires_grad_(False)
    a_new, logp = sample(s)
    sa_new = torch.cat([s, a_new], 1)
    lp = update("pi", (log_alpha.exp().detach() * logp - torch.min(q1(sa_new), q2(sa_new))).mean())
    for p in q_params:
        p.requires_grad_(True)
    la = update("alpha", -(log_alpha * (logp.detach() - 1.0)).mean())
print(f"q {lq:.4f} pi {lp:.4f} alpha {log_alpha.exp().item():.4f}")
