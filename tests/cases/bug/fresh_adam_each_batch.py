"""Decay the learning rate by building a new optimizer."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(161)
x = torch.randn(120, 4)
y = (x @ torch.tensor([1.0, -1.0, 0.5, 2.0])).unsqueeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
rate = 1e-2

for epoch in range(3):
    for bx, by in loader:
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(bx), by)
        loss.backward()
        optimizer.step()
        rate *= 0.98
    print(f"epoch {epoch} rate {rate:.5f} loss {loss.item():.4f}")
