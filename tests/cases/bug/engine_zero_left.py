"""The engine, with the zero_grad of the loop before: all but the last micro-batch is lost."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper import Engine

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.randn(24, 1)), 4)
engine = Engine(model, optimizer, progress=False)
for window in engine.windows(loader, size=2, epochs=3):
    with window:
        for x, y in window:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            window.backward(loss, weight=len(y))
