"""How far a window's step is from that of one big batch, where windows usually go wrong.

Usage: scripts/bench windows

Relative error of what SGD spends, in float64: by the hand-written loop that everybody writes
(loss / N, step and zero every N, one more step for the tail) and by the engine.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradkeeper import Engine

Batches = list[tuple[Tensor, Tensor]]
Loop = Callable[[nn.Module, Iterable[tuple[Tensor, Tensor]]], None]
TOKENS = (62, 12, 30, 7)
SIZE = 4


def build() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(16, 10).double()


def batches(*sizes: int) -> Batches:
    torch.manual_seed(0)
    return [
        (torch.randn(n, 16, dtype=torch.float64) + place, torch.randint(10, (n,)))
        for place, n in enumerate(sizes)
    ]


def by_hand(model: nn.Module, data: Iterable[tuple[Tensor, Tensor]]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for number, (x, y) in enumerate(data, 1):
        (cross_entropy(model(x), y) / SIZE).backward()
        if number % SIZE == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()


def by_engine(model: nn.Module, data: Iterable[tuple[Tensor, Tensor]]) -> None:
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for window in engine.windows(data, size=SIZE):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))


def spent(loop: Loop, data: Batches) -> Tensor:
    model = build()
    before = _flat(model)
    loop(model, data)
    return before - _flat(model)


def one_big_batch(data: Batches) -> Tensor:
    model = build()
    x, y = (torch.cat(parts) for parts in zip(*data, strict=True))
    cross_entropy(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def main() -> None:
    cases = {"tail of 2 in windows of 4": (8, 8), "62/12/30/7 items in 4 micro-batches": TOKENS}
    print("| relative error of the step | by hand | engine |")
    print("|---|---|---|")
    for title, sizes in cases.items():
        data = batches(*sizes)
        truth = one_big_batch(data)
        steps = [spent(loop, data) for loop in (by_hand, by_engine)]
        errors = [f"{float((step - truth).norm() / truth.norm()):.2g}" for step in steps]
        print(f"| {title} | {' | '.join(errors)} |")


if __name__ == "__main__":
    main()
