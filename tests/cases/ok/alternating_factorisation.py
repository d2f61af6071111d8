"""Alternating minimisation of a factorisation with two optimizers."""
import torch

torch.manual_seed(0)
target = torch.randn(12, 3) @ torch.randn(3, 10)
A = torch.randn(12, 3, requires_grad=True)
B = torch.randn(3, 10, requires_grad=True)
opt_a = torch.optim.Adam([A], lr=0.05)
opt_b = torch.optim.Adam([B], lr=0.05)


def objective():
    return (A @ B - target).pow(2).mean()


for sweep in range(10):
    for _ in range(3):
        opt_a.zero_grad()
        loss = objective()
        loss.backward()
        opt_a.step()
    for _ in range(3):
        opt_b.zero_grad()
        loss = objective()
        loss.backward()
        opt_b.step()
print(f"{loss.item():.4f}")
