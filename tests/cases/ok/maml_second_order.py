"""Second-order MAML with functional_call and autograd.grad in the inner loop."""
import torch
from torch import nn
from torch.func import functional_call


def adapt(model, params, x, y, lr=0.05, steps=2):
    for _ in range(steps):
        loss = nn.functional.mse_loss(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=True)
        params = {k: v - lr * g for (k, v), g in zip(params.items(), grads)}
    return params


def main():
    torch.manual_seed(309)
    model = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
    outer = torch.optim.Adam(model.parameters(), lr=0.01)
    for it in range(10):
        losses = []
        for _ in range(4):
            w = torch.randn(2, 1)
            xs, xq = torch.randn(8, 2), torch.randn(8, 2)
            fast = adapt(model, dict(model.named_parameters()), xs, xs @ w)
            losses.append(nn.functional.mse_loss(functional_call(model, fast, (xq,)), xq @ w))
        outer.zero_grad()
        torch.stack(losses).mean().backward()
        outer.step()
    print(f"meta loss {torch.stack(losses).mean().item():.4f}")


main()
