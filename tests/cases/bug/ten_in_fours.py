"""One pass of matrix factorisation with accumulation, all counts in plain sight."""
import torch
from torch import nn


class Factors(nn.Module):
    def __init__(self, users, items, rank):
        super().__init__()
        self.users = nn.Embedding(users, rank)
        self.items = nn.Embedding(items, rank)

    def forward(self, u, i):
        return (self.users(u) * self.items(i)).sum(1)


torch.manual_seed(83)
truth = torch.randn(20, 3) @ torch.randn(3, 30)
model = Factors(20, 30, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-2)
optimizer.zero_grad()
for step in range(1, 11):
    u, i = torch.randint(20, (40,)), torch.randint(30, (40,))
    loss = (model(u, i) - truth[u, i]).pow(2).mean() / 4
    loss.backward()
    if step % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    print(f"step {step} loss {loss.item() * 4:.4f}")
