"""A generator with codes: a third optimizer owns both networks, and steps after the other two."""
import itertools

import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, noise, code):
        return self.body(torch.cat([noise, code], dim=1))


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2))
        self.real = nn.Linear(16, 1)
        self.code = nn.Linear(16, 2)

    def forward(self, x):
        h = self.body(x)
        return self.real(h), self.code(h)


torch.manual_seed(0)
generator, judge = Generator(), Judge()
bce = nn.BCEWithLogitsLoss()
mse = nn.MSELoss()
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(judge.parameters(), lr=2e-4)
opt_code = torch.optim.Adam(itertools.chain(generator.parameters(), judge.parameters()), lr=2e-4)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
for real in torch.randn(12, 8, 4):
    noise, code = torch.randn(8, 4), torch.rand(8, 2)

    opt_d.zero_grad()
    score, _ = judge(real)
    fake_score, _ = judge(generator(noise, code).detach())
    d_loss = bce(score, ones) + bce(fake_score, zeros)
    d_loss.backward()
    opt_d.step()

    opt_g.zero_grad()
    score, guess = judge(generator(noise, code))
    g_loss = bce(score, ones)
    g_loss.backward()
    opt_g.step()

    _, guess = judge(generator(noise, code))
    code_loss = mse(guess, code)
    code_loss.backward()
    opt_code.step()
print(d_loss.item(), g_loss.item(), code_loss.item())
