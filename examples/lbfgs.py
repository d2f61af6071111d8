"""LBFGS evaluates the loss itself, so the backward calls go into a closure.

The engine zeroes before each evaluation and normalises after it; the micro-batches of the window
are read once and handed to every evaluation again.
"""

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.optim import LBFGS

from gradkeeper import Engine


def main(epochs: int = 6) -> list[float]:
    torch.manual_seed(0)
    x = torch.linspace(-3, 3, 60).unsqueeze(1)
    y = torch.sin(x)
    # Cut unevenly on purpose: the weights make it the whole again.
    loader = list(zip(x.split([7, 30, 23]), y.split([7, 30, 23]), strict=True))
    model = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = LBFGS(model.parameters(), max_iter=20, line_search_fn="strong_wolfe")
    engine = Engine(model, optimizer)

    losses = []
    for window in engine.windows(loader, size=3, epochs=epochs):
        with window:

            @window.closure
            def evaluate() -> None:
                for x, y in window:  # noqa: B023
                    window.backward(mse_loss(model(x), y), weight=len(y))  # noqa: B023

        losses.append(window.loss or 0.0)
    print(f"{window.step} steps, loss {losses[0]:.3f} -> {losses[-1]:.6f}")
    return losses


if __name__ == "__main__":
    main()
