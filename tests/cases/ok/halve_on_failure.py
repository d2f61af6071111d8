"""When a batch is too large it is tried again in halves; failed attempts leave nothing behind."""
import torch
from torch import nn

LIMIT = 12


def forward_backward(model, x, y, pieces):
    for xc, yc in zip(x.chunk(pieces), y.chunk(pieces)):
        if len(xc) > LIMIT:
            raise MemoryError(f"{len(xc)} rows do not fit")
        loss = nn.functional.mse_loss(model(xc), yc)
        (loss * len(xc) / len(x)).backward()
    return loss.item()


def robust_step(model, optimizer, x, y):
    pieces = 1
    while True:
        optimizer.zero_grad()
        try:
            loss = forward_backward(model, x, y, pieces)
            break
        except MemoryError:
            pieces *= 2
    optimizer.step()
    return loss, pieces


torch.manual_seed(608)
model = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
used = []
for rows in (8, 20, 12, 40, 16, 10):
    x = torch.randn(rows, 6)
    loss, pieces = robust_step(model, optimizer, x, x[:, :1])
    used.append(pieces)
print(used, f"loss {loss:.4f}")
