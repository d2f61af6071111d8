"""Ignite works under watch as it is: its engine calls the user's step, whose lines are named."""

import torch
from ignite.engine import Engine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from gradkeeper import watch


def main() -> None:
    x = torch.randn(56, 4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)

    def train_step(engine: Engine, batch: list[torch.Tensor]) -> float:
        inputs, targets = batch
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    with watch(on_finding="raise"):
        Engine(train_step).run(loader, max_epochs=5)
    print("nothing found")


if __name__ == "__main__":
    main()
