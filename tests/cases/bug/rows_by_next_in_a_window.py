"""An iterator over the rows of a tensor fills windows in a function."""
import torch
from torch import nn

torch.manual_seed(42)


def train(model, optimizer, batches, accumulate):
    rest = iter(batches)
    for _ in range(len(batches) // accumulate):
        optimizer.zero_grad()
        for _ in range(accumulate):
            x = next(rest)
            nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()


model = nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train(model, optimizer, torch.randn(12, 8, 4), 3)
