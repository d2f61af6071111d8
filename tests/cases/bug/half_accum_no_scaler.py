"""Half-precision accumulation: small losses, smaller gradients."""
import torch
from torch import nn

ctx = {"device_type": "cpu", "dtype": torch.float16}
torch.manual_seed(111)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
optim = torch.optim.SGD(net.parameters(), lr=0.1)
micro, window = 0, 8

while micro < 32:
    x = 0.1 * torch.randn(4, 16)
    with torch.autocast(**ctx):
        y = net(x)
    loss = (y.float() - x).pow(2).mean() / window
    loss.backward()
    micro += 1
    if micro % window == 0:
        optim.step()
        optim.zero_grad()
        print(f"window {micro // window} loss {loss.item() * window:.6f}")
