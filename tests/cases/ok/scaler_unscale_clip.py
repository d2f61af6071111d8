"""GradScaler with unscale_ and clipping; the first steps overflow and are skipped."""
import torch
from torch import nn

torch.manual_seed(501)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-20)
skipped = 0

for step in range(30):
    x = torch.randn(24, 4)
    optimizer.zero_grad()
    loss = 8 * nn.functional.mse_loss(model(x), 3 + x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < scale:
        skipped += 1
    else:
        scheduler.step()
print(f"loss {loss.item():.4f} skipped {skipped} lr {scheduler.get_last_lr()[0]}")
