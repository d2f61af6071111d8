"""GAN whose generator moves first in every batch."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(41)


def net(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o))


nets = {"gen": net(5, 2), "dis": net(2, 1)}
optimizers = {k: torch.optim.Adam(m.parameters(), lr=1e-3) for k, m in nets.items()}
data = torch.randn(256, 2) @ torch.tensor([[1.0, 0.6], [0.0, 0.4]]) + 1.0

for epoch in range(2):
    for real in data[torch.randperm(256)].split(32):
        z = torch.randn(len(real), 5)

        gen_loss = F.softplus(-nets["dis"](nets["gen"](z))).mean()
        gen_loss.backward()
        optimizers["gen"].step()
        optimizers["gen"].zero_grad()

        fake = nets["gen"](z).detach()
        dis_loss = F.softplus(-nets["dis"](real)).mean() + F.softplus(nets["dis"](fake)).mean()
        dis_loss.backward()
        optimizers["dis"].step()
        optimizers["dis"].zero_grad()
    print(f"epoch {epoch} gen {gen_loss.item():.4f} dis {dis_loss.item():.4f}")
