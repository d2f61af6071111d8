"""The head takes a step on each of two batches, and the trunk one on the sum of their mean losses."""
import torch
from torch import nn

torch.manual_seed(11)


def stream():
    for _ in range(8):
        x = torch.randn(4, 5)
        yield x, x.sum(1, keepdim=True)


trunk, head, decoder = nn.Linear(5, 3), nn.Linear(3, 1), nn.Linear(3, 5)
of_trunk = torch.optim.SGD([*trunk.parameters(), *decoder.parameters()], lr=0.01)
of_head = torch.optim.SGD(head.parameters(), lr=0.01)
batches = stream()
for update in range(4):
    of_trunk.zero_grad()
    for turn in range(2):
        inputs, targets = next(batches)
        of_head.zero_grad()
        loss = nn.functional.mse_loss(head(trunk(inputs)), targets)
        loss.backward()
        of_head.step()
    again = nn.functional.mse_loss(decoder(trunk(inputs)), inputs)
    again.backward()
    of_trunk.step()
