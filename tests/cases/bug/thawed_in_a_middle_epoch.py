"""A classifier whose body is frozen for two epochs."""
import torch
from torch import nn

torch.manual_seed(4)
body, head = nn.Linear(4, 6), nn.Linear(6, 2)
body.requires_grad_(False)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for epoch in range(5):
    if epoch == 2:
        body.requires_grad_(True)
    for x in torch.randn(3, 8, 4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(torch.relu(body(x))), (x[:, 0] > 0).long())
        loss.backward()
        optimizer.step()
