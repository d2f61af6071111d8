"""configure_optimizers returns a tuple; the loop zeroes element 0 only."""
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 8), nn.Linear(6, 8)

    def forward(self, a, b):
        return (self.left(a) * self.right(b)).sum(1)

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.left.parameters(), lr=1e-2),
            torch.optim.Adam(self.right.parameters(), lr=1e-2),
        )


torch.manual_seed(0)
model = TwoTower()
optimizers = model.configure_optimizers()
for step in range(15):
    a, b = torch.randn(16, 6), torch.randn(16, 6)
    target = ((a * b).sum(1) > 0).float()
    optimizers[0].zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), target)
    loss.backward()
    for opt in optimizers:
        opt.step()
print(f"{loss.item():.4f}")
