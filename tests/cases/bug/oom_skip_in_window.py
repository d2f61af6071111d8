"""Skip-on-OOM inside an accumulation window, without clearing."""
import torch
from torch import nn


class Fragile(torch.autograd.Function):
    armed = False

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if Fragile.armed:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return g


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.b(Fragile.apply(torch.relu(self.a(x))))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
accum, skipped = 4, 0
optimizer.zero_grad()
for i in range(12):
    x = torch.randn(8, 6)
    Fragile.armed = i == 5
    try:
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / accum
        loss.backward()
    except RuntimeError as e:
        if "out of memory" not in str(e):
            raise
        skipped += 1
        print("| WARNING: ran out of memory, skipping batch")
    if (i + 1) % accum == 0:
        optimizer.step()
        optimizer.zero_grad()
print("skipped", skipped)
