"""A new optimizer with a lower rate when the warm-up ends; then the bound moves on."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--warm_up", type=int, default=4)
parser.add_argument("--steps", type=int, default=9)
args = parser.parse_args([])


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    rate = 0.1
    warm_up = args.warm_up
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(args.steps):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
        if step >= warm_up:
            rate = rate / 10
            optimizer = torch.optim.Adam(model.parameters(), lr=rate)
            warm_up = warm_up * 3


if __name__ == "__main__":
    main()
