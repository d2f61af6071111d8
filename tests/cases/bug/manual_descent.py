"""Linear regression by hand on raw tensors, without an optimizer."""
import torch

torch.manual_seed(18)
n = 100
x = torch.randn(n, 3)
y = x @ torch.tensor([1.5, -2.0, 0.7]) + 0.3 + 0.05 * torch.randn(n)

w = torch.zeros(3, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
learning_rate = 0.02

for t in range(40):
    picked = torch.randperm(n)[:25]
    prediction = x[picked] @ w + b
    loss = (prediction - y[picked]).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= learning_rate * w.grad
        b -= learning_rate * b.grad
    if t % 10 == 9:
        print(t + 1, round(loss.item(), 4))
