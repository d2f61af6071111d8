"""The same loop with amp on, off, and through a disabled scaler."""
import torch
from torch import nn


def train(mode, steps=12, window=2):
    torch.manual_seed(503)
    model = nn.Linear(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = None
    if mode != "plain":
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=mode == "on")
    for step in range(steps):
        for micro in range(window):
            x = torch.randn(8, 5)
            loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True)) / window
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


results = {mode: train(mode) for mode in ("plain", "off", "on")}
print({k: round(v, 5) for k, v in results.items()})
