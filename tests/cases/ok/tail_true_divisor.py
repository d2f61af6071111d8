"""Accumulation over 4 of 10 batches; the tail of 2 is divided by 2."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 4


def train(model, loader, optimizer, epochs):
    n = len(loader)
    tail = n % ACCUM
    updates = 0
    for epoch in range(epochs):
        optimizer.zero_grad()
        for i, (x, y) in enumerate(loader):
            divisor = tail if tail and i >= n - tail else ACCUM
            loss = nn.functional.cross_entropy(model(x), y) / divisor
            loss.backward()
            if (i + 1) % ACCUM == 0 or i + 1 == n:
                optimizer.step()
                optimizer.zero_grad()
                updates += 1
        print(f"epoch {epoch} updates {updates} loss {loss.item() * divisor:.4f}")


torch.manual_seed(108)
x = torch.randn(80, 5)
y = (x.sum(1) > 0).long()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
train(
    model,
    DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True),
    torch.optim.Adam(model.parameters(), lr=0.01),
    epochs=3,
)
