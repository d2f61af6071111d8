"""Mixed precision with the split clipping functions, in the wrong place."""
import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

for step in range(12):
    x = torch.randn(16, 8)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        loss = (model(x).float() - x.mean(1, keepdim=True)).square().mean()
    scaler.scale(loss).backward()
    norm = get_total_norm([p.grad for p in model.parameters()])
    clip_grads_with_norm_(model.parameters(), 1.0, norm)
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.4f} norm {norm:.3f}")
