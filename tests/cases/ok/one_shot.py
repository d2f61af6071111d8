"""A single update without a loop."""
import torch
from torch import nn

torch.manual_seed(521)
model = nn.Linear(3, 2)
data, labels = torch.rand(8, 3), torch.rand(8, 2)
before = model.weight.detach().clone()
prediction = model(data)
loss = (prediction - labels).pow(2).sum()
optim = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
loss.backward()
optim.step()
print(f"moved by {(model.weight - before).norm().item():.4f}")
