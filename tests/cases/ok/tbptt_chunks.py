"""Truncated backpropagation: one update per chunk, then one update per sequence."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(2, 10), nn.Linear(10, 1)

    def forward(self, xs, h):
        outs = []
        for x in xs:
            h = self.cell(x, h)
            outs.append(self.out(h))
        return torch.stack(outs), h


def sequence():
    x = torch.randn(20, 8, 2)
    return x, x.cumsum(0)[..., :1].tanh()


torch.manual_seed(517)
model = Tagger()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
for _ in range(5):
    x, y = sequence()
    h = torch.zeros(8, 10)
    for xc, yc in zip(x.split(5), y.split(5)):
        h = h.detach()
        optimizer.zero_grad()
        out, h = model(xc, h)
        loss = nn.functional.mse_loss(out, yc)
        loss.backward()
        optimizer.step()
print(f"per chunk {loss.item():.4f}")

for _ in range(5):
    x, y = sequence()
    h = torch.zeros(8, 10)
    optimizer.zero_grad()
    for start in range(0, 20, 5):
        out, h = model(x[start : start + 5], h.detach())
        loss = (out - y[start : start + 5]).pow(2).sum() / y.numel()
        loss.backward()
    optimizer.step()
print(f"per sequence {loss.item():.4f}")
