"""Contrastive loss over a batch that is encoded in chunks, with cached embedding gradients."""
import torch
import torch.nn.functional as F
from torch import nn


def contrastive(a, b):
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).t() / 0.2
    return F.cross_entropy(logits, torch.arange(len(a)))


torch.manual_seed(612)
encoder = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
for step in range(12):
    view_a = torch.randn(32, 6)
    view_b = view_a + 0.1 * torch.randn_like(view_a)

    with torch.no_grad():
        cached = [encoder(v).requires_grad_() for v in (view_a, view_b)]
    loss = contrastive(*cached)
    grads = torch.autograd.grad(loss, cached)

    optimizer.zero_grad()
    for view, grad in zip((view_a, view_b), grads):
        for chunk, g in zip(view.split(8), grad.split(8)):
            surrogate = (encoder(chunk) * g).sum()
            surrogate.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
