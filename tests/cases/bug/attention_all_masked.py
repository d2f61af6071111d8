"""Attention pooling where an empty sequence slips in."""
import torch
from torch import nn


class AttnPool(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.score, self.out = nn.Linear(dim, 1), nn.Linear(dim, 1)

    def forward(self, x, mask):
        s = self.score(x).squeeze(-1).masked_fill(~mask, float("-inf"))
        return self.out((s.softmax(1).unsqueeze(-1) * x).sum(1))


def make_batch(i):
    x = torch.randn(8, 5, 6)
    lengths = torch.randint(1, 6, (8,))
    if i == 6:
        lengths[2] = 0
    return x, torch.arange(5)[None] < lengths[:, None]


torch.manual_seed(0)
model = AttnPool()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(10):
    x, mask = make_batch(i)
    loss = (model(x, mask) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("finished", loss.item())
