"""Periodic checkpoints counted in micro-batches."""
import io

import torch
from torch import nn

ACCUMULATE, SAVE_EVERY, TOTAL = 4, 6, 24
checkpoints = {}


def write_checkpoint(tag, **objects):
    buffer = io.BytesIO()
    torch.save({name: o.state_dict() for name, o in objects.items()}, buffer)
    checkpoints[tag] = len(buffer.getvalue())


torch.manual_seed(122)
model = nn.LSTM(4, 12, batch_first=True)
head = nn.Linear(12, 4)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=5e-3)
optimizer.zero_grad()
n = 0
while n < TOTAL:
    x = torch.randn(6, 9, 4).cumsum(1)
    out, _ = model(x[:, :-1])
    loss = nn.functional.mse_loss(head(out), x[:, 1:]) / ACCUMULATE
    loss.backward()
    n += 1
    if n % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
    if n % SAVE_EVERY == 0:
        write_checkpoint(n, model=model, head=head, optimizer=optimizer)
print(f"loss {loss.item() * ACCUMULATE:.4f}, checkpoints at {list(checkpoints)}")
