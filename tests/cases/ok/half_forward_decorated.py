"""A network whose forward is decorated to run in bfloat16."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.out = nn.Linear(8, 2)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        return self.out(torch.relu(self.body(x)))


@torch.autocast("cpu", dtype=torch.float16)
@torch.no_grad()
def evaluate(net, x):
    return net.body(x).mean()


torch.manual_seed(2)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for x in torch.randn(6, 8, 6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x).float(), (x[:, 0] > 0).long())
    loss.backward()
    optimizer.step()
    evaluate(net, x)
