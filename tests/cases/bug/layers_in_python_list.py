"""An MLP that keeps its hidden layers in a Python list."""
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.inp = nn.Linear(5, width)
        self.hidden = [nn.Linear(width, width) for _ in range(depth)]
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.out(x)


def main():
    torch.manual_seed(0)
    model = Deep()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(20):
        x = torch.randn(16, 5)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.abs().sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
