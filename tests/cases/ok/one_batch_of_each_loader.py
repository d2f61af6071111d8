"""One batch of each of two loaders: the losses of two domains are a sum by design."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(48)


def loader():
    x = torch.randn(32, 5)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)


model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
first, second = iter(loader()), iter(loader())
for update in range(4):
    group = [next(first), next(second)]
    optimizer.zero_grad()
    for inputs, targets in group:
        nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
