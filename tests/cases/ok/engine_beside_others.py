"""The engine beside what is nobody's leftover: an attack's input gradient, and a probe."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper import Engine

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
probe = torch.nn.Linear(1, 1)
probe_optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
mse = torch.nn.functional.mse_loss
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), 4)
engine = Engine(model, optimizer, progress=False)
for window in engine.windows(loader, size=2, epochs=3):
    with window:
        for x, y in window:
            (slope,) = torch.autograd.grad(mse(model(x.requires_grad_()), y), x)
            window.backward(mse(model(x.detach() + 0.01 * slope.sign()), y), weight=len(y))
            probe_optimizer.zero_grad()
            mse(probe(model(x).detach()), y).backward()
            probe_optimizer.step()
