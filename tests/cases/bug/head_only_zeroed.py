"""Fine-tuning where zeroing was left behind from the time of the frozen trunk."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        return self.head(self.trunk(x))


class FineTuner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(self, x, y):
        self.model.head.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(152)
tuner = FineTuner(Model())
for _ in range(20):
    x = torch.randn(16, 6)
    value = tuner.step(x, (x[:, 0] * x[:, 1] > 0).long())
print(f"loss {value:.4f}")
