"""CycleGAN on 2-D points with itertools.chain for both generators."""
import itertools

import torch
from torch import nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 16), nn.ReLU(), nn.Linear(16, o))


torch.manual_seed(1)
G_AB, G_BA, D_A, D_B = mlp(2, 2), mlp(2, 2), mlp(2, 1), mlp(2, 1)
optimizer_G = torch.optim.Adam(itertools.chain(G_AB.parameters(), G_BA.parameters()), lr=1e-3)
optimizer_D_A = torch.optim.Adam(D_A.parameters(), lr=1e-3)
optimizer_D_B = torch.optim.Adam(D_B.parameters(), lr=1e-3)
criterion_GAN, criterion_cycle = nn.MSELoss(), nn.L1Loss()
valid, fake_label = torch.ones(32, 1), torch.zeros(32, 1)

for i in range(15):
    real_A, real_B = torch.randn(32, 2), torch.randn(32, 2) * 0.5 + 2

    optimizer_G.zero_grad()
    fake_B, fake_A = G_AB(real_A), G_BA(real_B)
    loss_GAN = (criterion_GAN(D_B(fake_B), valid) + criterion_GAN(D_A(fake_A), valid)) / 2
    loss_cycle = (criterion_cycle(G_BA(fake_B), real_A) + criterion_cycle(G_AB(fake_A), real_B)) / 2
    loss_G = loss_GAN + 10.0 * loss_cycle
    loss_G.backward()
    optimizer_G.step()

    optimizer_D_A.zero_grad()
    loss_D_A = (criterion_GAN(D_A(real_A), valid) + criterion_GAN(D_A(fake_A.detach()), fake_label)) / 2
    loss_D_A.backward()
    optimizer_D_A.step()

    loss_D_B = (criterion_GAN(D_B(real_B), valid) + criterion_GAN(D_B(fake_B.detach()), fake_label)) / 2
    loss_D_B.backward()
    optimizer_D_B.step()

    if i % 5 == 0:
        print(f"[{i}] D {loss_D_A.item() + loss_D_B.item():.3f} G {loss_G.item():.3f}")
