"""A window is full after so many samples."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(45)
x = torch.randn(64, 5)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = 0
for inputs, targets in loader:
    nn.functional.mse_loss(model(inputs), targets).backward()
    seen += inputs.size(0)
    if seen >= 16:
        optimizer.step()
        optimizer.zero_grad()
        seen = 0
