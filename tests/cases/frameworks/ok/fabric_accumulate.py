"""Fabric: windows of four by no_backward_sync, saved and loaded."""

import tempfile
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 4)
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
model = nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=0.01))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8))
with tempfile.TemporaryDirectory() as folder:
    for epoch in range(3):
        for iteration, (inputs, targets) in enumerate(loader):
            is_accumulating = (iteration + 1) % 4 != 0
            with fabric.no_backward_sync(model, enabled=is_accumulating):
                loss = nn.functional.mse_loss(model(inputs), targets)
                fabric.backward(loss / 4)
            if not is_accumulating:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()
        fabric.save(folder + "/c.ckpt", {"model": model, "optimizer": optimizer})
    fabric.load(folder + "/c.ckpt", {"model": model, "optimizer": optimizer})
    for inputs, targets in loader:
        optimizer.zero_grad()
        fabric.backward(nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
