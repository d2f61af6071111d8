"""The new head is trained on a frozen body."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(6)]
model = Net()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)
model.head = nn.Linear(4, 1)
model.body.requires_grad_(False)
model(torch.randn(2, 3)).mean().backward()
model.zero_grad()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)
for x, y in batches:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
