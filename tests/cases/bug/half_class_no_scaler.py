"""Trainer with a configurable autocast dtype and no scaler."""
import torch
from torch import nn


class AmpTrainer:
    def __init__(self, model, lr=1e-2, dtype=torch.float16):
        self.model = model
        self.amp_dtype = dtype
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=self.amp_dtype):
            logits = self.model(x)
            loss = self.criterion(logits, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
trainer = AmpTrainer(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)))
for i in range(6):
    x = torch.randn(12, 6)
    value = trainer.step(x, x[:, :3].argmax(1))
print(f"{value:.4f}")
