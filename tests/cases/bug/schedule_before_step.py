"""Step decay, ticked at the start of each epoch."""
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR


def adjust(scheduler):
    scheduler.step()


def main():
    torch.manual_seed(88)
    x = torch.randn(64, 4)
    y = (x[:, :2].sum(1) > x[:, 2:].sum(1)).long()
    model = nn.Linear(4, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    for epoch in range(4):
        adjust(scheduler)
        for bx, by in zip(x.split(16), y.split(16)):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(bx), by)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} rate {optimizer.param_groups[0]['lr']:.4f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
