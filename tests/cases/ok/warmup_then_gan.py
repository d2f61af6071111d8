"""Pixel warm-up with an early exit, then adversarial updates."""
import torch
from torch import nn

torch.manual_seed(604)
gen = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
disc = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer_G = torch.optim.Adam(gen.parameters(), lr=2e-3)
optimizer_D = torch.optim.Adam(disc.parameters(), lr=2e-3)
bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
lift = torch.randn(4, 8)
warmup_batches = 8

for batches_done in range(24):
    lo = torch.randn(16, 4)
    hi = lo @ lift
    valid, fake_label = torch.ones(16, 1), torch.zeros(16, 1)

    optimizer_G.zero_grad()
    sr = gen(lo)
    loss_pixel = l1(sr, hi)
    if batches_done < warmup_batches:
        loss_pixel.backward()
        optimizer_G.step()
        continue

    loss_G = loss_pixel + 0.1 * bce(disc(sr), valid)
    loss_G.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    loss_D = (bce(disc(hi), valid) + bce(disc(sr.detach()), fake_label)) / 2
    loss_D.backward()
    optimizer_D.step()
print(f"pixel {loss_pixel.item():.4f} D {loss_D.item():.4f}")
