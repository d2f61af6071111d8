"""What is told of each window to the `log=` callable: a step and named numbers.

TensorBoard in three lines:

    def log(step, values):
        for name, value in values.items():
            writer.add_scalar(name, value, step)
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradkeeper.engine.window import Window

Log = Callable[[int, Mapping[str, float]], object]


def no_log(step: int, values: Mapping[str, float]) -> None:
    return


def values_of(window: "Window", rate: float, *, prefix: str) -> dict[str, float]:
    """Loss, norm, weight, learning rate, and whether the step was taken (1) or not (0)."""
    known = {
        "loss": window.loss,
        "grad_norm": window.grad_norm,
        "weight": window.weight,
        "lr": rate,
        "stepped": float(window.stepped),
    }
    return {prefix + name: value for name, value in known.items() if value is not None}
