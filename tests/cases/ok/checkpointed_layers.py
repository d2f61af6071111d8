"""Activation checkpointing in a deep stack."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self, depth=6, dim=12):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


torch.manual_seed(518)
model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(15):
    x = torch.randn(16, 12)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
