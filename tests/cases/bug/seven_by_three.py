"""Two-layer net for parity of bits, numbers of batches written in the loop."""
import torch
from torch import nn

torch.manual_seed(75)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=2e-2)
bce = nn.BCEWithLogitsLoss()


def parity(n):
    bits = torch.randint(0, 2, (n, 4)).float()
    return bits, bits.sum(1, keepdim=True) % 2


opt.zero_grad()
for epoch in range(4):
    for i in range(7):
        bits, odd = parity(20)
        loss = bce(model(bits), odd)
        (loss / 3).backward()
        if (i + 1) % 3 == 0:
            opt.step()
            opt.zero_grad()
    print(f"epoch {epoch} loss {loss.item():.4f}")
