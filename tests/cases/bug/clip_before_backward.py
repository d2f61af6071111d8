"""Node classification on a small graph; zero, forward, clip, backward, step."""
import torch
import torch.nn.functional as F
from torch import nn


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.second = nn.Linear(hidden, classes)

    def forward(self, x, adjacency):
        h = torch.relu(self.first(adjacency @ x))
        return self.second(adjacency @ h)


def train(model, optimizer, x, adjacency, y, mask):
    model.train()
    optimizer.zero_grad()
    out = model(x, adjacency)
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    loss = F.cross_entropy(out[mask], y[mask])
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(102)
y = torch.arange(40) % 4
same = (y[:, None] == y[None]).float()
links = (torch.rand(40, 40) < 0.05 + 0.3 * same).float()
links = ((links + links.t()) > 0).float() + torch.eye(40)
adjacency = links / links.sum(1, keepdim=True)
x = torch.randn(40, 10)
mask = torch.rand(40) < 0.5
model = GCN(10, 16, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(20):
    loss = train(model, optimizer, x, adjacency, y, mask)
print(f"loss {loss:.4f}")
