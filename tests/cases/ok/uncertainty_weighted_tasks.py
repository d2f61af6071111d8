"""Multi-task learning with learned uncertainty weights."""
import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(16, 1), nn.Linear(16, 3)])

    def forward(self, x):
        h = self.trunk(x)
        return [head(h) for head in self.heads]


class AutomaticWeightedLoss(nn.Module):
    def __init__(self, num=2):
        super().__init__()
        self.params = nn.Parameter(torch.ones(num))

    def forward(self, *losses):
        return sum(0.5 / self.params[i] ** 2 * l + torch.log(1 + self.params[i] ** 2) for i, l in enumerate(losses))


torch.manual_seed(0)
model, awl = MultiTask(), AutomaticWeightedLoss(2)
optimizer = torch.optim.Adam([{"params": model.parameters()}, {"params": awl.parameters(), "weight_decay": 0}], lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
for epoch in range(3):
    for _ in range(6):
        x = torch.randn(16, 6)
        reg, cls = model(x)
        total = awl(nn.functional.mse_loss(reg, x.sum(1, keepdim=True)), nn.functional.cross_entropy(cls, x[:, :3].argmax(1)))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    scheduler.step()
    print(epoch, f"{total.item():.4f}", [round(p, 3) for p in awl.params.tolist()])
