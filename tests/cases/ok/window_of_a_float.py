"""The window's length is the quotient of two numbers, and so a float."""

import torch
from torch import nn

DEVICES = 2
BATCH = 16 / DEVICES
MICRO_BATCH = 2
WINDOW = BATCH // MICRO_BATCH


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(8)]
    for number, (inputs, targets) in enumerate(loader):
        filling = (number + 1) % WINDOW != 0
        loss = nn.functional.mse_loss(model(inputs), targets)
        (loss / WINDOW).backward()
        if not filling:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
