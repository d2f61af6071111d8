"""Gradient noise before the step and a Langevin kick after it."""
import torch
from torch import nn

torch.manual_seed(614)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
samples = []
for step in range(1, 41):
    x = torch.randn(16, 3)
    loss = nn.functional.mse_loss(model(x), x @ torch.tensor([[1.0], [0.0], [-1.0]]))
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.add_(0.05 / step * torch.randn_like(p.grad))
    optimizer.step()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.01 * torch.randn_like(p))
    if step > 20 and step % 5 == 0:
        samples.append(model.weight.detach().clone())
print(torch.stack(samples).mean(0).round(decimals=2).tolist())
