"""Second-order MAML with autograd.grad; the outer loop never zeroes."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def tasks(n):
    for _ in range(n):
        w = torch.randn(3, 1)
        xs, xq = torch.randn(10, 3), torch.randn(10, 3)
        yield xs, xs @ w, xq, xq @ w


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
meta_opt = torch.optim.Adam(net.parameters(), lr=1e-2)

for it in range(5):
    meta_loss = 0.0
    for xs, ys, xq, yq in tasks(4):
        params = dict(net.named_parameters())
        inner = F.mse_loss(functional_call(net, params, (xs,)), ys)
        grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
        fast = {k: p - 0.05 * g for (k, p), g in zip(params.items(), grads)}
        meta_loss = meta_loss + F.mse_loss(functional_call(net, fast, (xq,)), yq) / 4
    meta_loss.backward()
    meta_opt.step()
print(f"{meta_loss.item():.4f}")
