"""Logistic regression on two raw tensors; gradients are zeroed in place, guarded."""
import torch

torch.manual_seed(105)
x = torch.randn(200, 4)
y = (x @ torch.tensor([1.0, -2.0, 0.5, 0.0]) > 0.3).float()
w = torch.zeros(4, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 0.5

for step in range(40):
    for t in (w, b):
        if t.grad is not None:
            t.grad.zero_()
    p = torch.sigmoid(x @ w + b)
    loss = torch.nn.functional.binary_cross_entropy(p, y)
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad
        b -= lr * b.grad
    if step % 10 == 9:
        print(f"step {step + 1} loss {loss.item():.4f}")
