import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def stream():
    for _ in range(6):
        yield (torch.randn(2, 3), torch.randn(2, 1))


model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = 0
for x, y in stream():
    if count == 2:
        optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    count += 1
    if count == 2:
        optimizer.step()
        count = 0
