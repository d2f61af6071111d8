"""Two backward calls before one step, only the first through the scaler."""
import torch
from torch import nn


def penalty(model):
    return 1e-3 * sum(p.pow(2).sum() for p in model.parameters())


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(steps):
        x = torch.randn(20, 6)
        y = x.max(1).indices
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        fit = nn.functional.cross_entropy(logits.float(), y)
        scaler.scale(fit).backward()
        extra = penalty(model)
        extra.backward()
        scaler.step(optimizer)
        scaler.update()
    return fit.item(), extra.item()


torch.manual_seed(96)
fit, extra = train(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 6)), steps=15)
print(f"fit {fit:.4f} penalty {extra:.4f}")
