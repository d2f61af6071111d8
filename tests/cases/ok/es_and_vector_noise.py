"""parameters_to_vector for weight noise around an ordinary loop."""
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
params = list(model.parameters())
optimizer = torch.optim.Adam(params, lr=1e-2)


def zero(params):
    grads = [p.grad for p in params if p.grad is not None]
    if grads:
        torch._foreach_zero_(grads)


for step in range(15):
    x = torch.randn(16, 3)
    y = x.sum(1, keepdim=True)
    clean = parameters_to_vector(params).detach().clone()
    vector_to_parameters(clean + 0.01 * torch.randn_like(clean), params)
    zero(params)
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    vector_to_parameters(clean, params)
    optimizer.step()
print(f"{loss.item():.4f}")
