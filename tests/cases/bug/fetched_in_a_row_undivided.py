"""A list of the next batches makes a window."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(47)
x = torch.randn(64, 5)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rest = iter(loader)
for update in range(4):
    group = [next(rest) for _ in range(2)]
    optimizer.zero_grad()
    for inputs, targets in group:
        nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
