"""Checkpoints every few steps and a final file of weights."""
import os
import tempfile

import torch
from torch import nn


class Checkpointer:
    def __init__(self, folder, every):
        self.folder, self.every, self.saved = folder, every, []

    def __call__(self, step, model, optimizer):
        if step % self.every:
            return
        path = os.path.join(self.folder, f"step{step}.pt")
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        self.saved.append(os.path.basename(path))


torch.manual_seed(509)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Checkpointer(folder, every=6)
    step = 0
    for epoch in range(3):
        for x in torch.randn(6, 16, 4):
            for micro in x.chunk(2):
                loss = nn.functional.cross_entropy(model(micro), (micro[:, 0] > 0).long()) / 2
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            checkpoint(step, model, optimizer)
    final = os.path.join(folder, "final.pt")
    torch.save(model.state_dict(), final)
    print(checkpoint.saved, sorted(torch.load(final)))
