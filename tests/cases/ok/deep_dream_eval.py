"""Deep dream and feature inversion through a trained network in eval mode."""
import torch
from torch import nn

torch.manual_seed(315)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5))
model.eval()


def dream(unit, steps=15, lr=0.2):
    img = torch.zeros(1, 10, requires_grad=True)
    for _ in range(steps):
        model.zero_grad()
        score = model(img)[0, unit]
        score.backward()
        with torch.no_grad():
            img += lr * img.grad / (img.grad.norm() + 1e-8)
            img.grad.zero_()
    return score.item()


def invert(target, steps=30):
    guess = torch.randn(1, 10, requires_grad=True)
    optimizer = torch.optim.Adam([guess], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(guess) - target).pow(2).mean() + 1e-3 * guess.pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()


print([round(dream(u), 3) for u in range(3)])
print(f"inversion {invert(model(torch.randn(1, 10)).detach()):.4f}")
