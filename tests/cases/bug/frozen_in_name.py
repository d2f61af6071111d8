"""Transfer learning: report the size of the backbone, then freeze it."""
import torch
from torch import nn


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))


torch.manual_seed(108)
model = Transfer()
weights = (p for p in model.backbone.parameters())
print("backbone holds", sum(p.numel() for p in weights), "weights")
for p in weights:
    p.requires_grad = False

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(15):
    x = torch.randn(16, 8)
    y = (x[:, 0] > 0).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
