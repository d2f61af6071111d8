"""Fit a cubic on raw tensors; the gradients are cleared before anything filled them."""
import math

import torch

torch.manual_seed(143)
x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
powers = torch.stack([x ** k for k in range(4)], dim=1)
coefficients = torch.randn(4, requires_grad=True)
rate = 1e-6

for t in range(50):
    coefficients.grad.zero_()
    loss = (powers @ coefficients - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        coefficients -= rate * coefficients.grad

print("loss", loss.item())
print("coefficients", coefficients.tolist())
