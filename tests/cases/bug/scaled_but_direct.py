"""Trainer with an optional scaler; one branch forgot about it."""
import torch
from torch import nn


class MixedTrainer:
    def __init__(self, model, accum):
        self.model, self.accum = model, accum
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0)

    def backward(self, loss):
        self.scaler.scale(loss / self.accum).backward()

    def close(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def run(self, batches):
        for count, (x, y) in enumerate(batches, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                out = self.model(x)
            loss = nn.functional.mse_loss(out.float(), y)
            self.backward(loss)
            if count % self.accum == 0:
                self.close()
        return loss.item()


torch.manual_seed(94)
trainer = MixedTrainer(nn.Linear(5, 2), accum=2)
batches = [(x, x[:, :2] - x[:, 2:4]) for x in torch.randn(16, 10, 5)]
print(f"loss {trainer.run(batches):.4f}")
