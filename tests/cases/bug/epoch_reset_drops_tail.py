"""Iris-like flowers; gradients are reset at the start of each epoch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(81)
kinds = torch.randint(3, (90,))
petals = torch.randn(3, 4)[kinds] * 2 + torch.randn(90, 4)
loader = DataLoader(TensorDataset(petals, kinds), batch_size=9, shuffle=True)


def train_epoch(model, optimizer, accum):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(x), y)
        (loss / accum).backward()
        if i % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    return loss.item()


model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    print(f"epoch {epoch} loss {train_epoch(model, optimizer, accum=4):.4f}")
