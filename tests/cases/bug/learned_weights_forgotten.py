"""Two regression tasks weighed by learned uncertainties."""
import torch
from torch import nn


class TwoTaskLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, first, second):
        losses = torch.stack([first, second])
        return (torch.exp(-self.log_var) * losses + self.log_var).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 24), nn.ReLU())
        self.a, self.b = nn.Linear(24, 1), nn.Linear(24, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.a(h), self.b(h)


def train(net, combine, optimizer, steps):
    mse = nn.MSELoss()
    for _ in range(steps):
        x = torch.randn(32, 4)
        pa, pb = net(x)
        loss = combine(mse(pa, x[:, :1] * 2), mse(pb, x[:, 1:2].abs()))
        optimizer.zero_grad()
        combine.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(52)
net = Net()
combine = TwoTaskLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
print(f"loss {train(net, combine, optimizer, 30):.4f} log variances {combine.log_var.tolist()}")
