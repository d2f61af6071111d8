"""Roll back to the last good weights when the loss jumps."""
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(126)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
handle, path = tempfile.mkstemp(suffix=".pt")
os.close(handle)
torch.save(model.state_dict(), path)
previous, rollbacks = None, 0

for step in range(30):
    x = torch.randn(16, 4)
    y = x.pow(2).sum(1, keepdim=True) * (8 if step in (12, 21) else 1)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    if previous is not None and loss.item() > 4 * previous:
        model.load_state_dict(torch.load(path))
        rollbacks += 1
    else:
        previous = loss.item()
    optimizer.step()
    if step % 5 == 0:
        optimizer.zero_grad()
        torch.save(model.state_dict(), path)
os.remove(path)
print(f"{rollbacks} rollbacks, last good loss {previous:.4f}")
