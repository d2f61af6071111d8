"""An optimizer hook that clears gradients after each step."""
import torch
from torch import nn

torch.manual_seed(606)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def clear(opt, args, kwargs):
    opt.zero_grad()


handle = optimizer.register_step_post_hook(clear)
for step in range(25):
    x = torch.randn(16, 4)
    loss = nn.functional.mse_loss(model(x), x[:, 1:2])
    loss.backward()
    optimizer.step()
    assert all(p.grad is None for p in model.parameters())
handle.remove()
print(f"loss {loss.item():.4f}")
