"""Energy-based fit: gradients are asked for explicitly, then the optimizer is stepped."""
import torch
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


torch.manual_seed(31)
energy = Energy()
params = list(energy.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2)

for it in range(20):
    positive = torch.randn(32, 2) * 0.3
    negative = torch.rand(32, 2) * 4 - 2
    optimizer.zero_grad()
    gap = energy(positive).mean() - energy(negative).mean()
    loss = gap + 0.01 * gap.pow(2)
    grads = torch.autograd.grad(loss, params)
    largest = max(g.abs().max().item() for g in grads)
    optimizer.step()
print(f"loss {loss.item():.4f} largest gradient {largest:.4f}")
