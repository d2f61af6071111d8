"""Accelerate: saved in mid-epoch, loaded, and gone on from there."""

import tempfile
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main():
    x = torch.randn(64, 4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(2):
            for step, (inputs, targets) in enumerate(loader):
                outputs = model(inputs)
                loss = nn.functional.mse_loss(outputs, targets)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                if step == 4:
                    accelerator.save_state(folder)
        accelerator.load_state(folder)
        for inputs, targets in accelerator.skip_first_batches(loader, 5):
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

if __name__ == "__main__":
    main()
