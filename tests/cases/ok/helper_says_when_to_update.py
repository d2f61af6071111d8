"""Sum of two numbers; an object counts batches and says when to update."""
import torch
from torch import nn


class Every:
    def __init__(self, number):
        self.number = number
        self.seen = 0

    def reached(self):
        self.seen += 1
        if self.seen < self.number:
            return False
        self.seen = 0
        return True


torch.manual_seed(1)
model = nn.Linear(2, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
window = Every(4)
for start in range(0, 96, 8):
    x = torch.randn(8, 2)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)) / window.number
    loss.backward()
    if window.reached():
        optimizer.step()
        optimizer.zero_grad()
