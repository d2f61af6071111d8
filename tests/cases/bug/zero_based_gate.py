"""Pixel-set classifier with a 0-based accumulation gate."""
import torch
import torch.nn as nn


class SetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(2, 16), nn.ReLU())
        self.rho = nn.Linear(16, 2)

    def forward(self, points):
        return self.rho(self.phi(points).sum(1))


def point_clouds(n):
    y = torch.randint(2, (n,))
    radius = 0.5 + 0.5 * y.float()
    angle = torch.rand(n, 12) * 6.28
    return torch.stack([angle.cos(), angle.sin()], 2) * radius[:, None, None], y


def train(model, optimizer, loss_fn, accumulation_steps=4):
    for epoch in range(2):
        for step in range(12):
            x, y = point_clouds(10)
            loss = loss_fn(model(x), y) / accumulation_steps
            loss.backward()
            if step % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item() * accumulation_steps:.4f}")


torch.manual_seed(73)
model = SetNet()
train(model, torch.optim.Adam(model.parameters(), lr=1e-2), nn.CrossEntropyLoss())
