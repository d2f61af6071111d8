"""DP-SGD by hand: clip each sample's gradient, add noise, step on the mean."""
import torch
from torch import nn

torch.manual_seed(307)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
max_norm, noise_multiplier = 1.0, 0.1
x = torch.randn(48, 4)
y = (x[:, 0] + x[:, 1] > 0).long()

for epoch in range(2):
    for xb, yb in zip(x.split(12), y.split(12)):
        summed = [torch.zeros_like(p) for p in model.parameters()]
        for sample, label in zip(xb, yb):
            model.zero_grad()
            loss = nn.functional.cross_entropy(model(sample[None]), label[None])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            for total, p in zip(summed, model.parameters()):
                total += p.grad
        for total, p in zip(summed, model.parameters()):
            noise = noise_multiplier * max_norm * torch.randn_like(total)
            p.grad = (total + noise) / len(xb)
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
