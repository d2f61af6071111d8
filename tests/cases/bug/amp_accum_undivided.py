"""Half-precision regression of pendulum energy with accumulation."""
import torch
from torch import nn

ACCUM = 4


def pendulum(n):
    state = torch.rand(n, 2) * 2 - 1
    energy = 0.5 * state[:, 1:] ** 2 + 1 - torch.cos(state[:, :1])
    return state, energy


def train(model, optimizer, scaler, micro_batches):
    optimizer.zero_grad(set_to_none=True)
    for i in range(1, micro_batches + 1):
        state, energy = pendulum(12)
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            predicted = model(state)
        loss = nn.functional.mse_loss(predicted.float(), energy)
        scaler.scale(loss).backward()
        if i % ACCUM == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
    return loss.item()


torch.manual_seed(63)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
print(f"energy error {train(model, optimizer, scaler, 32):.5f}")
