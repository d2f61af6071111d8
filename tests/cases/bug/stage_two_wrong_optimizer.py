"""Greedy layer-wise training: the second stage zeroes the first stage's optimizer."""
import torch
from torch import nn

torch.manual_seed(0)
enc1, dec1 = nn.Linear(8, 6), nn.Linear(6, 8)
enc2, dec2 = nn.Linear(6, 4), nn.Linear(4, 6)
opt1 = torch.optim.Adam([*enc1.parameters(), *dec1.parameters()], lr=1e-2)
opt2 = torch.optim.Adam([*enc2.parameters(), *dec2.parameters()], lr=1e-2)
data = torch.randn(64, 8)

for epoch in range(2):
    for x in data.split(16):
        opt1.zero_grad()
        loss = nn.functional.mse_loss(dec1(torch.relu(enc1(x))), x)
        loss.backward()
        opt1.step()
print(f"stage 1 {loss.item():.4f}")

for epoch in range(2):
    for x in data.split(16):
        opt1.zero_grad()
        with torch.no_grad():
            h = torch.relu(enc1(x))
        loss = nn.functional.mse_loss(dec2(torch.relu(enc2(h))), h)
        loss.backward()
        opt2.step()
print(f"stage 2 {loss.item():.4f}")
