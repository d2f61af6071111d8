"""The discriminator takes two turns, and its loss fills the generator, too."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
disc = nn.Linear(3, 1)
gen = nn.Linear(3, 3)
opt_d = torch.optim.SGD(disc.parameters(), lr=0.01)
opt_g = torch.optim.SGD(gen.parameters(), lr=0.01)
for i, (x, y) in enumerate(batches):
    for turn in range(2):
        opt_d.zero_grad()
        fake = gen(x)
        loss_d = disc(fake).tanh().mean() - disc(x).mean()
        loss_d.backward()
        opt_d.step()
    if i % 3 == 0:
        loss_g = -disc(gen(x)).mean()
        loss_g.backward()
        opt_g.step()
        opt_g.zero_grad()
