"""Fine-tuning with frozen layers; trainable parameters are picked with filter()."""
import torch
from torch import nn

torch.manual_seed(106)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
for p in model[0].parameters():
    p.requires_grad = False

trainable = filter(lambda p: p.requires_grad, model.parameters())
optimizer = torch.optim.Adam(trainable, lr=1e-2)
directions = torch.randn(10, 3)

for step in range(20):
    x = torch.randn(16, 10)
    y = (x @ directions).argmax(1)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(trainable, 0.5)
    optimizer.step()
print(f"loss {loss.item():.4f} norm {float(norm):.4f}")
