"""A context manager that frames one update."""
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def update(*optimizers):
    for opt in optimizers:
        opt.zero_grad()
    yield
    for opt in optimizers:
        opt.step()


torch.manual_seed(522)
encoder, classifier = nn.Linear(5, 8), nn.Linear(8, 2)
opts = torch.optim.Adam(encoder.parameters(), lr=0.01), torch.optim.SGD(classifier.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(16, 5)
    with update(*opts):
        loss = nn.functional.cross_entropy(classifier(torch.relu(encoder(x))), (x[:, 2] > 0).long())
        loss.backward()
print(f"loss {loss.item():.4f}")
