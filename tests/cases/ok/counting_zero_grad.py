"""A subclass that overrides zero_grad and step only to count, then delegates."""
import torch
from torch import nn


class CountingAdam(torch.optim.Adam):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = {"zero": 0, "step": 0}

    def zero_grad(self, set_to_none=True):
        self.calls["zero"] += 1
        super().zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        self.calls["step"] += 1
        return super().step(closure)


torch.manual_seed(404)
model = nn.Linear(2, 2)
opt = CountingAdam(model.parameters(), lr=0.05)
for x in torch.randn(25, 8, 2):
    opt.zero_grad()
    (model(x) - x.flip(1)).abs().mean().backward()
    opt.step()
print(opt.calls)
