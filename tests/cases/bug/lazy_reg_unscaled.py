"""Mixed precision with a penalty that bypasses the scaler."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)


def l2(model):
    return sum(p.pow(2).sum() for p in model.parameters())


for i in range(12):
    x = torch.randn(16, 6)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float(), x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    if i % 4 == 0:
        penalty = 1e-3 * l2(model)
        penalty.backward()
    scaler.step(opt)
    scaler.update()
print(f"{loss.item():.4f}")
