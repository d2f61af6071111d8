"""Zeroing between the forward pass and backward, as many notebooks do."""
import torch
import torch.nn.functional as F
from torch import nn, optim

torch.manual_seed(103)
X = torch.linspace(-3, 3, 120).unsqueeze(1)
Y = torch.sin(X) + 0.05 * torch.randn_like(X)

net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
opt = optim.Adam(net.parameters(), lr=0.01)

t = 0
while True:
    pred = net(X)
    loss = F.mse_loss(pred, Y)
    if t % 20 == 0:
        print(t, f"{loss.item():.4f}")
    if loss.item() < 0.01 or t >= 80:
        break
    opt.zero_grad()
    loss.backward()
    opt.step()
    t += 1
