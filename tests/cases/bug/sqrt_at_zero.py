"""Learn an embedding that keeps pairwise distances."""
import torch
from torch import nn


def distances(z):
    gap = z[:, None] - z[None]
    return gap.pow(2).sum(-1).sqrt()


torch.manual_seed(104)
points = torch.randn(16, 5)
wanted = torch.cdist(points, points)
net = nn.Linear(5, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(8):
    optimizer.zero_grad()
    stress = (distances(net(points)) - wanted).pow(2).mean()
    stress.backward()
    optimizer.step()
print(f"stress {stress.item():.4f}, finite weights {bool(net.weight.isfinite().all())}")
