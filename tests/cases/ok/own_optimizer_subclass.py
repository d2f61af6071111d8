"""Adan-like optimizer that keeps the previous gradient."""
import torch
from torch import nn


class DiffSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, beta=0.9):
        defaults = {"lr": lr, "beta": beta}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["prev"] = p.grad.clone()
                    state["buf"] = torch.zeros_like(p)
                diff = p.grad - state["prev"]
                state["buf"].mul_(group["beta"]).add_(p.grad + 0.1 * diff)
                state["prev"].copy_(p.grad)
                p.add_(state["buf"], alpha=-group["lr"])
        return loss


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 10), nn.SiLU(), nn.Linear(10, 1))
optimizer = DiffSGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
for epoch in range(3):
    for _ in range(5):
        x = torch.randn(12, 4)

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), x.max(1, keepdim=True).values)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
    scheduler.step()
    print(epoch, f"{loss.item():.4f}")
