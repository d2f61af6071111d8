"""A trainer with callbacks; two places believe they own the step."""
import torch
from torch import nn


class Callback:
    def on_batch_begin(self, trainer):
        pass

    def on_batch_end(self, trainer, loss):
        pass


class OptimizerCallback(Callback):
    def on_batch_begin(self, trainer):
        trainer.optimizer.zero_grad()

    def on_batch_end(self, trainer, loss):
        trainer.optimizer.step()


class Logger(Callback):
    def __init__(self):
        self.losses = []

    def on_batch_end(self, trainer, loss):
        self.losses.append(loss)


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train_step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, steps):
        for _ in range(steps):
            x = torch.randn(8, 3)
            for c in self.callbacks:
                c.on_batch_begin(self)
            loss = self.train_step(x, x.sum(1, keepdim=True))
            for c in self.callbacks:
                c.on_batch_end(self, loss)


torch.manual_seed(0)
log = Logger()
Trainer(nn.Linear(3, 1), [OptimizerCallback(), log]).fit(10)
print(f"{log.losses[-1]:.4f}")
