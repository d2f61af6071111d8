"""CycleGAN with replay buffers and chained generator parameters."""
import itertools
import random

import torch
from torch import nn


class ReplayBuffer:
    def __init__(self, max_size=20):
        self.max_size, self.data = max_size, []

    def push_and_pop(self, batch):
        out = []
        for element in batch.detach():
            element = element.unsqueeze(0)
            if len(self.data) < self.max_size:
                self.data.append(element)
                out.append(element)
            elif random.uniform(0, 1) > 0.5:
                i = random.randint(0, self.max_size - 1)
                out.append(self.data[i].clone())
                self.data[i] = element
            else:
                out.append(element)
        return torch.cat(out)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 12), nn.ReLU(), nn.Linear(12, o))


random.seed(0)
torch.manual_seed(0)
G_AB, G_BA, D_A, D_B = mlp(2, 2), mlp(2, 2), mlp(2, 1), mlp(2, 1)
optimizer_G = torch.optim.Adam(itertools.chain(G_AB.parameters(), G_BA.parameters()), lr=1e-3)
optimizer_D_A = torch.optim.Adam(D_A.parameters(), lr=1e-3)
optimizer_D_B = torch.optim.Adam(D_B.parameters(), lr=1e-3)
buf_A, buf_B = ReplayBuffer(), ReplayBuffer()
mse, l1 = nn.MSELoss(), nn.L1Loss()
valid, fake = torch.ones(16, 1), torch.zeros(16, 1)
for epoch in range(2):
    for i in range(6):
        A, B = torch.randn(16, 2), torch.randn(16, 2) + 2
        G_AB.train()
        G_BA.train()
        optimizer_G.zero_grad()
        fake_B, fake_A = G_AB(A), G_BA(B)
        loss_id = (l1(G_BA(A), A) + l1(G_AB(B), B)) / 2
        loss_gan = (mse(D_B(fake_B), valid) + mse(D_A(fake_A), valid)) / 2
        loss_cyc = (l1(G_BA(fake_B), A) + l1(G_AB(fake_A), B)) / 2
        loss_G = loss_gan + 10 * loss_cyc + 5 * loss_id
        loss_G.backward()
        optimizer_G.step()

        optimizer_D_A.zero_grad()
        loss_D_A = (mse(D_A(A), valid) + mse(D_A(buf_A.push_and_pop(fake_A)), fake)) / 2
        loss_D_A.backward()
        optimizer_D_A.step()

        optimizer_D_B.zero_grad()
        loss_D_B = (mse(D_B(B), valid) + mse(D_B(buf_B.push_and_pop(fake_B)), fake)) / 2
        loss_D_B.backward()
        optimizer_D_B.step()
    print(f"[Epoch {epoch}] G {loss_G.item():.3f} D {(loss_D_A + loss_D_B).item():.3f}")
