"""Skip an update when its gradient norm spikes; the gradient is dropped knowingly."""
import torch
from torch import nn


def grad_norm(module):
    return torch.stack([p.grad.norm() for p in module.parameters() if p.grad is not None]).norm().item()


torch.manual_seed(507)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
average, dropped = None, 0
for step in range(40):
    x = torch.randn(16, 6) * (100.0 if step % 13 == 12 else 1.0)
    loss = nn.functional.mse_loss(model(x), x[:, :1] * 0.5)
    optimizer.zero_grad()
    loss.backward()
    norm = grad_norm(model)
    if average is not None and norm > 50 * average:
        dropped += 1
        optimizer.zero_grad()
        continue
    optimizer.step()
    average = norm if average is None else 0.9 * average + 0.1 * norm
print(f"dropped {dropped} average norm {average:.4f}")
