"""Full-batch graph-style script: the loop over epochs calls train() and test()."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(601)
x = torch.randn(40, 8)
adj = (torch.rand(40, 40) < 0.1).float()
adj = (adj + adj.t() + torch.eye(40)).clamp(max=1)
adj = adj / adj.sum(1, keepdim=True)
y = (adj @ x)[:, :3].argmax(1)
train_mask = torch.arange(40) < 28


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self):
        return self.b(adj @ F.dropout(F.relu(self.a(adj @ x)), 0.3, self.training))


model = GCN()
optimizer = torch.optim.Adam(
    [dict(params=model.a.parameters(), weight_decay=5e-4), dict(params=model.b.parameters(), weight_decay=0)], lr=0.02
)


def train():
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model()[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def test():
    model.eval()
    hits = model().argmax(1) == y
    return [hits[m].float().mean().item() for m in (train_mask, ~train_mask)]


for epoch in range(1, 31):
    loss = train()
    accs = test()
print(f"loss {loss:.4f} train {accs[0]:.2f} test {accs[1]:.2f}")
