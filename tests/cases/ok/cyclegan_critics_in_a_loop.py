"""Two critics of one optimizer, each with a loss of its own in a loop over both."""
import itertools

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
to_b, to_a, critic_a, critic_b = (nn.Linear(4, 4) for _ in range(4))
generators = torch.optim.Adam(itertools.chain(to_b.parameters(), to_a.parameters()))
critics = torch.optim.Adam(itertools.chain(critic_a.parameters(), critic_b.parameters()))


def train(networks, on):
    for network in networks:
        for parameter in network.parameters():
            parameter.requires_grad = on


for a, b in zip(torch.randn(40, 8, 4), torch.randn(40, 8, 4)):
    fake_b, fake_a = to_b(a), to_a(b)
    train([critic_a, critic_b], False)
    generators.zero_grad()
    fooled = critic_a(fake_a).square().mean() + critic_b(fake_b).square().mean()
    (fooled + F.l1_loss(to_a(fake_b), a) + F.l1_loss(to_b(fake_a), b)).backward()
    generators.step()
    train([critic_a, critic_b], True)
    critics.zero_grad()
    for critic, real, fake in ((critic_a, a, fake_a), (critic_b, b, fake_b)):
        true, false = critic(real), critic(fake.detach())
        loss = 0.5 * (F.mse_loss(true, torch.ones(8, 4)) + F.mse_loss(false, torch.zeros(8, 4)))
        loss.backward()
    critics.step()
