"""The five-line loop and its windowed twin: the same weights, bit for bit."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW

from gradkeeper import Engine


def data() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    return list(zip(x.split(32), y.split(32), strict=True))


def build() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))


def five_lines(epochs: int) -> nn.Module:
    model = build()
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for x, y in data():
            optimizer.zero_grad()
            output = model(x)
            loss = cross_entropy(output, y)
            loss.backward()
            optimizer.step()
    return model


def windowed(epochs: int) -> nn.Module:
    model = build()
    optimizer = AdamW(model.parameters(), lr=0.01)
    engine = Engine(model, optimizer)
    for _ in range(epochs):
        for window in engine.windows(data(), size=1):
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y), weight=len(y))
    return model


def main() -> None:
    pairs = zip(five_lines(5).parameters(), windowed(5).parameters(), strict=True)
    equal = all(torch.equal(one, other) for one, other in pairs)
    print("bitwise equal" if equal else "not equal")


if __name__ == "__main__":
    main()
