"""Lightning Fabric works under watch as it is: the user's lines are named, not the wrappers'."""

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper import watch


def main() -> None:
    x = torch.randn(56, 4)
    fabric = Fabric(accelerator="cpu", devices=1)
    model = nn.Linear(4, 1)
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=8))
    with watch(on_finding="raise"):
        for _ in range(5):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(inputs), targets)
                fabric.backward(loss)
                optimizer.step()
    print("nothing found")


if __name__ == "__main__":
    main()
