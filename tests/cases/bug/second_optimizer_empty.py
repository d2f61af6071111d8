"""Warm up with SGD, then hand the same parameters to Adam."""
import torch
from torch import nn


def phase(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(16, 4)
        loss = nn.functional.mse_loss(model(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(109)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
    params = model.parameters()
    warm = torch.optim.SGD(params, lr=0.1)
    print(f"after warm-up {phase(model, warm, 10):.4f}")
    fine = torch.optim.Adam(params, lr=1e-3)
    print(f"after fine-tuning {phase(model, fine, 10):.4f}")


main()
