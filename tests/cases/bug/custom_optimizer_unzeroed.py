"""A small sign-SGD optimizer of our own, used without zeroing."""
import torch
from torch import nn
from torch.optim import Optimizer


class SignSGD(Optimizer):
    def __init__(self, params, lr=0.01, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(p.grad.sign(), alpha=-group["lr"])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 1))
opt = SignSGD(model.parameters(), lr=1e-3)
for epoch in range(2):
    for _ in range(10):
        x = torch.randn(8, 7)
        loss = nn.functional.huber_loss(model(x), x.max(1, keepdim=True).values)
        loss.backward()
        opt.step()
    print(epoch, f"{loss.item():.4f}")
