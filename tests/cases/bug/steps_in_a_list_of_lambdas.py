"""Callbacks step, and the number of micro-batches is an option that only the gate reads."""
import argparse

import torch
from torch import nn

torch.manual_seed(51)
args = argparse.Namespace(accumulate=3)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
callbacks = [lambda: print("on its way"), lambda: optimizer.step()]
for i, x in enumerate(torch.randn(9, 8, 4)):
    optimizer.zero_grad()
    loss = (model(x) - 1).square().mean() / args.accumulate
    loss.backward()
    if (i + 1) % args.accumulate == 0:
        for callback in callbacks:
            callback()
