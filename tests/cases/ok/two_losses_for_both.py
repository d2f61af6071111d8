"""Encoder and generator: E moves by the first loss, G by the sum of both."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(205)
E = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
G = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 6))
optimizer_E = torch.optim.Adam(E.parameters(), lr=2e-3)
optimizer_G = torch.optim.Adam(G.parameters(), lr=2e-3)
basis = torch.randn(2, 6)

for i in range(30):
    x = torch.randn(16, 2) @ basis
    optimizer_E.zero_grad()
    optimizer_G.zero_grad()

    code = E(x)
    loss_GE = F.l1_loss(G(code), x) + 0.01 * code.pow(2).mean()
    loss_GE.backward()
    optimizer_E.step()

    # G also learns that a sampled code can be read back from its image
    z = torch.randn(16, 2)
    loss_latent = 0.5 * F.l1_loss(E(G(z)), z)
    loss_latent.backward()
    optimizer_G.step()
    if i % 10 == 9:
        print(f"{i + 1} rec {loss_GE.item():.4f} latent {loss_latent.item():.4f}")
