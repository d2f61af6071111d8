"""Adversarial training: PGD on the inputs, then the real update."""
import torch
import torch.nn.functional as F
from torch import nn


def pgd(model, x, y, eps=0.3, alpha=0.1, iters=3):
    delta = torch.empty_like(x).uniform_(-eps, eps).requires_grad_()
    for _ in range(iters):
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        with torch.no_grad():
            delta += alpha * delta.grad.sign()
            delta.clamp_(-eps, eps)
        delta.grad.zero_()
    return delta.detach()


torch.manual_seed(312)
x = torch.randn(120, 6)
y = (x[:, 0] - x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    for xb, yb in zip(x.split(24), y.split(24)):
        delta = pgd(model, xb, yb)
        loss = F.cross_entropy(model(xb + delta), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} robust loss {loss.item():.4f}")
