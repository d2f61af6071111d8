"""Only the head is trained, the body stays as it is."""
import torch
from torch import nn

torch.manual_seed(12)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


net = Net()
net.body.requires_grad_(False)
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.01)
x = torch.randn(8, 4, 5)
for batch in x:
    loss = (net(batch) - batch.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
