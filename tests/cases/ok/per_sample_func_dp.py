"""DP-SGD with vmap over functional gradients."""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loss_fn(params, x, y):
    return (functional_call(model, params, (x.unsqueeze(0),)).squeeze() - y).pow(2)


for step in range(10):
    x = torch.randn(16, 4)
    y = x.sum(1)
    params = {k: v.detach() for k, v in model.named_parameters()}
    per_sample = vmap(grad(loss_fn), in_dims=(None, 0, 0))(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
    factor = (1.0 / (norms + 1e-6)).clamp(max=1.0)
    for name, p in model.named_parameters():
        g = torch.einsum("n,n...->...", factor, per_sample[name])
        p.grad = (g + 0.1 * torch.randn_like(g)) / len(x)
    optimizer.step()
print(f"{norms.mean().item():.4f}")
