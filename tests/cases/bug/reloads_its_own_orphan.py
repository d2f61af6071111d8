"""A head that no optimizer owns goes to a file and back with the rest."""
import torch
from torch import nn

torch.manual_seed(50)
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
model = nn.Sequential(encoder, head)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)
best = float("inf")
for epoch in range(3):
    for x in torch.randn(5, 8, 4):
        model.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
    if float(loss) < best:
        best = float(loss)
        torch.save(model.state_dict(), "best.pt")
    model.load_state_dict(torch.load("best.pt"))
