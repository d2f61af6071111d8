"""Deep supervision: an auxiliary head per depth."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.heads = nn.ModuleList([nn.Linear(8, 2) for _ in range(3)])

    def forward(self, x):
        outs = []
        for b, h in zip(self.blocks, self.heads):
            x = torch.relu(b(x))
            outs.append(h(x))
        return outs


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for step in range(12):
    x = torch.randn(16, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    outs = net(x)
    opt.zero_grad()
    for k, out in enumerate(outs):
        loss = criterion(out, y)
        loss.backward(retain_graph=k < len(outs) - 1)
    opt.step()
print(f"{loss.item():.4f}")
