"""Sparse embedding with SparseAdam, dense rest with Adam."""
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, users=50, dim=8):
        super().__init__()
        self.emb = nn.Embedding(users, dim, sparse=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, ids):
        return self.out(self.emb(ids)).squeeze(-1)


torch.manual_seed(0)
model = Recommender()
sparse_opt = torch.optim.SparseAdam(list(model.emb.parameters()), lr=1e-2)
dense_opt = torch.optim.Adam(model.out.parameters(), lr=1e-2)
scores = torch.randn(50)

for epoch in range(2):
    for _ in range(6):
        ids = torch.randint(0, 50, (16,))
        dense_opt.zero_grad()
        loss = nn.functional.mse_loss(model(ids), scores[ids])
        loss.backward()
        sparse_opt.step()
        dense_opt.step()
    print(epoch, f"{loss.item():.4f}")
