"""Windows of four counted over the whole training, a checkpoint after each epoch of six."""
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Run:
    def __init__(self, window):
        self.window, self.seen = window, 0
        self.net = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 2))
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.files = []

    def batch(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x), y)
        (loss / self.window).backward()
        self.seen += 1
        if self.seen % self.window == 0:
            self.optim.step()
            self.optim.zero_grad()
        return loss.item()

    def checkpoint(self):
        out = io.BytesIO()
        torch.save((self.net.state_dict(), self.optim.state_dict(), self.seen), out)
        self.files.append(out.getvalue())


torch.manual_seed(123)
x = torch.randn(48, 7)
loader = DataLoader(TensorDataset(x, (x[:, 0] + x[:, 6] > 0).long()), batch_size=8, shuffle=True)
run = Run(window=4)
for epoch in range(4):
    for x, y in loader:
        value = run.batch(x, y)
    run.checkpoint()
print(f"loss {value:.4f}, {len(run.files)} checkpoints, {run.seen} batches")
