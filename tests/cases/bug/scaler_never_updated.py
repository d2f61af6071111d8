"""Half-precision training of a small classifier, scaler and all but one call."""
import torch
from torch import nn


def loop(model, optimizer, scaler, steps):
    for step in range(steps):
        x = torch.randn(16, 5)
        y = (x.sum(1) > 0).long()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
    return loss.item()


torch.manual_seed(97)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
print("loss", loop(model, optimizer, scaler, steps=10))
