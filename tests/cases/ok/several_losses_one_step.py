"""Multi-task: one backward per task to save memory, the shared graph retained."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(516)
trunk = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
heads = {"cls": nn.Linear(24, 3), "reg": nn.Linear(24, 1), "bin": nn.Linear(24, 1)}
params = list(trunk.parameters()) + [p for h in heads.values() for p in h.parameters()]
optimizer = torch.optim.Adam(params, lr=5e-3)
weights = {"cls": 1.0, "reg": 0.5, "bin": 0.3}

for step in range(20):
    x = torch.randn(24, 6)
    optimizer.zero_grad()
    features = trunk(x)
    losses = {
        "cls": F.cross_entropy(heads["cls"](features), x[:, :3].argmax(1)),
        "reg": F.mse_loss(heads["reg"](features), x.sum(1, keepdim=True)),
        "bin": F.binary_cross_entropy_with_logits(heads["bin"](features), (x[:, :1] > 0).float()),
    }
    for i, (name, loss) in enumerate(losses.items()):
        (weights[name] * loss).backward(retain_graph=i < len(losses) - 1)
    optimizer.step()
print({k: round(v.item(), 4) for k, v in losses.items()})
