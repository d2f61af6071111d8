"""Lookahead as a plain wrapper around another optimizer."""
import torch
from torch import nn


class Lookahead:
    def __init__(self, inner, k=5, alpha=0.5):
        self.inner, self.k, self.alpha, self.count = inner, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in inner.param_groups]

    def zero_grad(self):
        self.inner.zero_grad()

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k:
            return
        for group, slow in zip(self.inner.param_groups, self.slow):
            for fast, kept in zip(group["params"], slow):
                kept += self.alpha * (fast - kept)
                fast.copy_(kept)


torch.manual_seed(302)
model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = Lookahead(torch.optim.Adam(model.parameters(), lr=0.02))
for step in range(30):
    x = torch.randn(20, 3)
    loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
