"""A sequence is one batch, and its time steps are parts of it, wherever it lies."""
import torch
from torch import nn

torch.manual_seed(43)
sequences = torch.randn(6, 5, 8, 4)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(len(sequences)):
    optimizer.zero_grad()
    for t in range(1, 5):
        before, x = sequences[number, t - 1], sequences[number, t]
        (model(before) - x).square().mean().backward()
    optimizer.step()
for sequence in sequences:
    optimizer.zero_grad()
    for x in sequence:
        (model(x) - x).square().mean().backward()
    optimizer.step()
whole = torch.randn(8, 5, 4)
for epoch in range(4):
    optimizer.zero_grad()
    for t in range(5):
        x = whole[:, t]
        (model(x) - x).square().mean().backward()
    optimizer.step()
