"""A "brain" class whose update is spread over several methods."""
import torch
from torch import nn


class Brain:
    def __init__(self, modules, opt_class, factor):
        self.modules, self.factor = nn.ModuleDict(modules), factor
        self.optimizers_dict = {"model": opt_class(self.modules.parameters())}
        self.step = self.optimizer_step = 0

    @property
    def should_step(self):
        return self.step % self.factor == 0

    def compute_loss(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.modules["head"](torch.relu(self.modules["enc"](x))), y)

    def fit_batch(self, batch):
        loss = self.compute_loss(batch)
        (loss / self.factor).backward()
        if self.should_step:
            self.optimizers_step()
        return loss.detach()

    def optimizers_step(self):
        for opt in self.optimizers_dict.values():
            opt.step()
        self.zero_grad()
        self.optimizer_step += 1

    def zero_grad(self, set_to_none=True):
        for opt in self.optimizers_dict.values():
            opt.zero_grad(set_to_none=set_to_none)

    def fit(self, epochs, data):
        for epoch in range(epochs):
            self.step = 0
            for batch in data:
                self.step += 1
                loss = self.fit_batch(batch)
            print(f"epoch {epoch} updates {self.optimizer_step} loss {loss.item():.4f}")


torch.manual_seed(603)
data = [(x, x.mean(1, keepdim=True)) for x in torch.randn(9, 10, 5)]
brain = Brain({"enc": nn.Linear(5, 8), "head": nn.Linear(8, 1)}, lambda p: torch.optim.SGD(p, lr=0.1), factor=3)
brain.fit(3, data)
