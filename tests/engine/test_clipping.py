"""clip_norm and clip_value are torch's, applied to the normalised gradient, in one go."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from gradkeeper.engine import Engine
from tests.engine.problems import classifier, distance, parts_of, rows, same, weights_of

BATCH = rows(24, torch.float64)


def clipped_by_torch(bound: float, *, by: str) -> tuple[nn.Module, Tensor]:
    model = classifier(torch.float64)
    cross_entropy(model(BATCH[0]), BATCH[1]).backward()
    held = [p.grad for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(held)
    if by == "norm":
        nn.utils.clip_grad_norm_(model.parameters(), bound)
    else:
        nn.utils.clip_grad_value_(model.parameters(), bound)
    SGD(model.parameters(), lr=0.1).step()
    return model, norm


@pytest.mark.parametrize("sizes", [[24], [7, 1, 16]])
@pytest.mark.parametrize("by", ["norm", "value"])
@pytest.mark.parametrize("bound", [0.01, 100.0])
def test_the_clipped_step_is_that_of_torch(by: str, bound: float, sizes: list[int]) -> None:
    expected, norm = clipped_by_torch(bound, by=by)

    model = classifier(torch.float64)
    options = {f"clip_{by}": bound}
    engine = Engine(model, SGD(model.parameters(), lr=0.1), **options)  # type: ignore[arg-type]
    with engine.window() as window:
        for x, y in parts_of(BATCH, sizes):
            window.backward(cross_entropy(model(x), y), weight=len(y))

    assert distance(weights_of(model), weights_of(expected)) <= 1e-12
    assert window.grad_norm == pytest.approx(norm.item(), rel=1e-12)


@pytest.mark.parametrize("bound", [0.01, 100.0])
def test_clipping_a_window_of_one_is_bitwise_that_of_torch(bound: float) -> None:
    x, y = rows(8)
    twin = classifier()
    cross_entropy(twin(x), y).backward()
    nn.utils.clip_grad_norm_(twin.parameters(), bound)
    SGD(twin.parameters(), lr=0.1).step()

    model = classifier()
    with Engine(model, SGD(model.parameters(), lr=0.1), clip_norm=bound).window() as window:
        window.backward(cross_entropy(model(x), y), weight=8)

    assert same(model, twin)
    assert window.stepped
