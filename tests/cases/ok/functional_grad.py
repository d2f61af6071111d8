"""Functional training: gradients are values, parameters are replaced."""
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

torch.manual_seed(410)
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
params = {k: v.detach().clone() for k, v in model.named_parameters()}


def loss_fn(params, x, y):
    return nn.functional.mse_loss(functional_call(model, params, (x,)), y)


step_fn = grad_and_value(loss_fn)
for step in range(40):
    x = torch.randn(32, 3)
    y = x.sum(1, keepdim=True).sin()
    grads, loss = step_fn(params, x, y)
    params = {k: params[k] - 0.1 * grads[k] for k in params}
print(f"loss {loss.item():.4f}")
per_sample = vmap(torch.func.grad(loss_fn), in_dims=(None, 0, 0))(params, x, y)
print(tuple(per_sample["0.weight"].shape))
