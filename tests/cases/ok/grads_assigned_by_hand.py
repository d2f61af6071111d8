"""autograd.grad assigned to .grad, then an ordinary optimizer step."""
import torch
from torch import nn

torch.manual_seed(411)
model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(params, lr=0.02)
for step in range(40):
    x = torch.randn(16, 5)
    loss = nn.functional.mse_loss(model(x), x[:, :1].abs())
    grads = torch.autograd.grad(loss, params)
    for p, g in zip(params, grads):
        p.grad = g
    optimizer.step()
print(f"loss {loss.item():.4f}")
