"""Clear gradients by hand at the top of the loop."""
import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 10)
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        return self.out(torch.sigmoid(self.hidden(x)))


torch.manual_seed(141)
model = Mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    x = torch.randn(16, 3)
    for p in model.parameters():
        p.grad.zero_()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
