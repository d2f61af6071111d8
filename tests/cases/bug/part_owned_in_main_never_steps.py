import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.01)
    for x in torch.randn(6, 8, 3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()


main()
