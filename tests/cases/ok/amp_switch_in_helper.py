"""Mixed precision by a switch that is asked twice: around the forward in a helper, and at backward."""

import sys

import torch
from torch import nn


class Experiment:
    def __init__(self, amp):
        self.amp = amp
        self.model = nn.Linear(6, 2)
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def predict(self, x):
        if self.amp:
            with torch.autocast("cpu", dtype=torch.float16):
                return self.model(x)
        else:
            return self.model(x)

    def fit(self, batches):
        if self.amp:
            scaler = torch.amp.GradScaler("cpu")
        for x, y in batches:
            self.optimizer.zero_grad()
            if self.amp:
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = self.criterion(self.model(x), y)
            else:
                loss = self.criterion(self.predict(x), y)
            if self.amp:
                scaler.scale(loss).backward()
                scaler.step(self.optimizer)
                scaler.update()
            else:
                loss.backward()
                self.optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    batches = [(torch.randn(4, 6), torch.randn(4, 2)) for _ in range(5)]
    Experiment(amp="--amp" in sys.argv).fit(batches)
