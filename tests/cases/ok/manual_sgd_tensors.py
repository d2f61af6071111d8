"""A two-layer network on raw tensors; .grad is set to None after every update."""
import math

import torch

torch.manual_seed(408)
params = [
    (torch.randn(1, 10)).requires_grad_(),
    torch.zeros(10, requires_grad=True),
    (torch.randn(10, 1) / math.sqrt(10)).requires_grad_(),
]
x = torch.linspace(-math.pi, math.pi, 60).unsqueeze(1)
y = torch.sin(x)
learning_rate = 0.05

for t in range(60):
    w1, b1, w2 = params
    loss = (torch.tanh(x @ w1 + b1) @ w2 - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in params:
            p -= learning_rate * p.grad
            p.grad = None
    if t % 20 == 19:
        print(t + 1, f"{loss.item():.4f}")
