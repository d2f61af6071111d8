"""Ranking model for pairs of items, with a step that is not there."""
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, better, worse):
        return self.score(better) - self.score(worse)


def main():
    torch.manual_seed(57)
    taste = torch.randn(6)
    model = Ranker()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        total = 0.0
        for _ in range(10):
            a, b = torch.randn(16, 6), torch.randn(16, 6)
            swap = (a @ taste < b @ taste)[:, None]
            better, worse = torch.where(swap, b, a), torch.where(swap, a, b)
            optimizer.zero_grad()
            loss = nn.functional.softplus(-model(better, worse)).mean()
            loss.backward()
            optimizer.step
            total += loss.item()
        print(f"epoch {epoch} loss {total / 10:.4f}")


main()
