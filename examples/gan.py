"""A GAN with two owners: a window of D credits D only, so the generator needs no detach().

The generator learns to draw from a ring of radius 2.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.optim import Adam

from gradkeeper import Engine


def ring(count: int) -> Tensor:
    angle = torch.rand(count) * 2 * math.pi
    return 2 * torch.stack([angle.cos(), angle.sin()], dim=1)


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, outputs))


def against(scores: Tensor, label: float) -> Tensor:
    return bce(scores, torch.full_like(scores, label))


def main(rounds: int = 400) -> float:
    torch.manual_seed(0)
    g, d = network(4, 2), network(2, 1)
    optimizers = {name: Adam(m.parameters(), lr=3e-3) for name, m in (("G", g), ("D", d))}
    engine = Engine({"G": g, "D": d}, optimizers)

    loader = [ring(64) for _ in range(rounds)]
    for group in engine.batches(loader):
        with engine.window(owner="D") as window:
            for real in group:
                fake = g(torch.randn(len(real), 4))
                window.backward(against(d(real), 1.0), weight=len(real))
                window.backward(against(d(fake), 0.0), counts=False)
        with engine.window(owner="G") as window:
            for real in group:
                fake = g(torch.randn(len(real), 4))
                window.backward(against(d(fake), 1.0), weight=len(real))

    radius: float = g(torch.randn(512, 4)).norm(dim=1).mean().item()
    print(f"steps {engine.steps}, mean radius {radius:.2f} of 2")
    return radius


if __name__ == "__main__":
    main()
