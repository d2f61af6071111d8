"""Checkpoint at the end of every epoch, whatever the window."""
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def save_checkpoint(state, path):
    torch.save(state, path)


def main():
    torch.manual_seed(9)
    x = torch.randn(56, 5)
    loader = DataLoader(TensorDataset(x, x.tanh().sum(1, keepdim=True)), batch_size=8)
    model = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    accum, micro = 3, 0
    folder = tempfile.mkdtemp()
    for epoch in range(3):
        for bx, by in loader:
            loss = nn.functional.mse_loss(model(bx), by) / accum
            loss.backward()
            micro += 1
            if micro % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        save_checkpoint(
            {"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()},
            os.path.join(folder, f"ckpt_{epoch}.pt"),
        )
    print(f"loss {loss.item() * accum:.4f}")


if __name__ == "__main__":
    main()
