"""Gradient checkpointing in a residual stack, tqdm-like progress."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def progress(iterable, desc=""):
    for n, item in enumerate(iterable, 1):
        yield item
    print(desc, n, "batches")


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.1)) for _ in range(3)])
        self.tail = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        for layer in self.layers:
            x = x + checkpoint(layer, x, use_reentrant=False)
        return checkpoint_sequential(self.tail, 2, x, use_reentrant=False)


torch.manual_seed(0)
model = Stack()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = [torch.randn(8, 8) for _ in range(6)]
for epoch in range(2):
    for i, x in enumerate(progress(data, f"epoch {epoch}")):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
print(f"{loss.item():.4f}")
