"""The 'does not require grad' message silenced the wrong way."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    for _ in range(5):
        x = torch.randn(8, 4)
        y = (x[:, 0] > 0).long()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss = torch.tensor(loss.item(), requires_grad=True)
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.4f}")
