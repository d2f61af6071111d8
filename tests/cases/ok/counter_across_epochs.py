"""Windows that go on across epochs: 5 batches per epoch, 4 epochs, window of 4."""
import torch
from torch import nn


class Accumulator:
    def __init__(self, optimizer, every):
        self.optimizer, self.every = optimizer, every
        self.seen = self.updates = 0

    def __call__(self, loss):
        (loss / self.every).backward()
        self.seen += 1
        if self.seen % self.every == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.updates += 1


torch.manual_seed(110)
xs, target = torch.randn(5, 12, 4), torch.randn(4, 1)
model = nn.Linear(4, 1)
accumulate = Accumulator(torch.optim.SGD(model.parameters(), lr=0.1), every=4)
for epoch in range(4):
    for x in xs:
        loss = nn.functional.mse_loss(model(x), x @ target)
        accumulate(loss)
    print(f"epoch {epoch} batches {accumulate.seen} updates {accumulate.updates} loss {loss.item():.4f}")
assert accumulate.seen == 4 * accumulate.updates
