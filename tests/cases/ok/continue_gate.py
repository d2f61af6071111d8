"""The update is gated by `continue`, as in large image training scripts."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_one_epoch(epoch, model, loader, optimizer, accum_steps):
    last_batch_idx = len(loader) - 1
    updates_per_epoch = math.ceil(len(loader) / accum_steps)
    last_accum_steps = len(loader) % accum_steps
    last_batch_idx_to_accum = len(loader) - last_accum_steps
    num_updates = epoch * updates_per_epoch
    optimizer.zero_grad()
    for batch_idx, (x, y) in enumerate(loader):
        last_batch = batch_idx == last_batch_idx
        need_update = last_batch or (batch_idx + 1) % accum_steps == 0
        if batch_idx >= last_batch_idx_to_accum:
            accum_steps = last_accum_steps
        loss = nn.functional.cross_entropy(model(x), y)
        if accum_steps > 1:
            loss = loss / accum_steps
        loss.backward()
        if not need_update:
            continue
        optimizer.step()
        num_updates += 1
        optimizer.zero_grad()
    return num_updates


torch.manual_seed(112)
x, y = torch.randn(88, 6), torch.randint(0, 3, (88,))
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(3):
    print(train_one_epoch(epoch, model, loader, optimizer, accum_steps=4))
