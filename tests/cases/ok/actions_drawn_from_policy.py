"""An actor and a critic share an optimizer; actions are drawn, so no gradient passes them."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence

policy, value, prior = nn.Linear(4, 2), nn.Linear(4, 1), nn.Linear(4, 2)
opt = torch.optim.Adam([*policy.parameters(), *value.parameters()])
optp = torch.optim.Adam(prior.parameters())
for _ in range(10):
    x = torch.randn(8, 4)
    d = Categorical(logits=policy(x))
    a = d.sample()
    loss = -(d.log_prob(a) * (a.float() - value(x).squeeze(1))).mean() - 0.01 * d.entropy().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    kl = kl_divergence(Normal(prior(x), 1.0), Normal(0.0, 1.0)).mean()
    optp.zero_grad()
    kl.backward()
    optp.step()
