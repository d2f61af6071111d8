"""A generator of six batches, two losses each, a step after three."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
def stream():
    for _ in range(6):
        yield torch.randn(2, 3), torch.randn(2, 1)


model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, (x, y) in enumerate(stream()):
    if i % 3 == 0:
        optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(model(x), y) / 3
    for part in (loss, 0.1 * model(x).abs().mean()):
        part.backward()
    if (i + 1) % 3 == 0:
        optimizer.step()
