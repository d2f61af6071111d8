"""Gradient surgery (PCGrad): conflicting task gradients are projected, then merged."""
import torch
from torch import nn


def flat_grad(params):
    return torch.cat([p.grad.flatten() for p in params])


def project(grads):
    out = []
    for i, g in enumerate(grads):
        g = g.clone()
        for j, other in enumerate(grads):
            dot = g @ other
            if i != j and dot < 0:
                g -= dot / other.norm() ** 2 * other
        out.append(g)
    return torch.stack(out).sum(0)


def write_back(params, vector):
    start = 0
    for p in params:
        p.grad = vector[start : start + p.numel()].view_as(p).clone()
        start += p.numel()


torch.manual_seed(304)
model = nn.Linear(6, 2)
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.05)
for step in range(20):
    x = torch.randn(24, 6)
    out = model(x)
    losses = [
        nn.functional.mse_loss(out[:, 0], x[:, 0] - x[:, 1]),
        nn.functional.mse_loss(out.sum(1), x[:, 1]),
    ]
    grads = []
    for loss in losses:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        grads.append(flat_grad(params))
    write_back(params, project(grads))
    optimizer.step()
print(" ".join(f"{loss.item():.4f}" for loss in losses))
