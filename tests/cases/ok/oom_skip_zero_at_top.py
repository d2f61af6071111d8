"""Skip-on-OOM without accumulation."""
import torch
from torch import nn


class Explode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bad):
        ctx.bad = bad
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        if ctx.bad:
            raise RuntimeError("CUDA out of memory")
        return g, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(5, 10), nn.Linear(10, 1)

    def forward(self, x, bad=False):
        return self.l2(Explode.apply(torch.relu(self.l1(x)), bad))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
ooms = 0
for i in range(12):
    x = torch.randn(8, 5)
    optimizer.zero_grad()
    try:
        loss = nn.functional.mse_loss(model(x, bad=i in (3, 7)), x.sum(1, keepdim=True))
        loss.backward()
    except RuntimeError as e:
        if "out of memory" in str(e):
            ooms += 1
            continue
        raise
    optimizer.step()
print(f"{loss.item():.4f} ooms {ooms}")
