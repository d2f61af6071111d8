"""Fruit grading with accumulated gradients."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Fruit(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(71)
        self.x = torch.rand(n, 5, generator=g)
        self.y = (self.x.sum(1) * 0.8).long().clamp(max=3)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main(accum=4):
    torch.manual_seed(71)
    loader = DataLoader(Fruit(80), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    optimizer.zero_grad()
    for epoch in range(3):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y) / accum
            loss.backward()
            if (i + 1) % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item() * accum:.4f}")


main()
