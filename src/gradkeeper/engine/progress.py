"""What is told: of a model once how much of it trains, of each window a bar in the terminal, and
numbers to the `log=` callable.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from gradkeeper.engine.journal import Journal, warn_at
from gradkeeper.engine.owner import Owner, parameters_of

if TYPE_CHECKING:
    from gradkeeper.engine.window import Window


# A bar in the terminal, or nothing. It reads a loss only when it is about to show one.


REFRESH = 0.2


class WindowProgress(Protocol):
    def begin(self, epoch: int, epochs: int, windows: int | None, behind: int = 0) -> None:
        """`behind`: windows of this epoch that another process has done."""

    def closed(self, window: "Window") -> None: ...

    def advance(self) -> None: ...

    def end(self) -> None: ...


class NoBar:
    def begin(self, epoch: int, epochs: int, windows: int | None, behind: int = 0) -> None:
        return

    def closed(self, window: "Window") -> None:
        return

    def advance(self) -> None:
        return

    def end(self) -> None:
        return


class Bar:
    """One bar per epoch: windows, step, loss, norm, items per second."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._shown = 0.0
        self._items = 0.0

    def begin(self, epoch: int, epochs: int, windows: int | None, behind: int = 0) -> None:
        from tqdm import tqdm

        self.end()
        title = f"epoch {epoch + 1}/{epochs}"
        self._bar = tqdm(total=windows, initial=behind, desc=title, unit="window")
        self._shown = time.monotonic()
        self._items = 0.0

    def closed(self, window: "Window") -> None:
        now = time.monotonic()
        passed = now - self._shown
        if self._bar is None or passed < REFRESH:
            self._items += window.weight
            return
        rate = (self._items + window.weight) / passed
        self._bar.set_postfix(facts(window, rate), refresh=False)
        self._shown, self._items = now, 0.0

    def advance(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def facts(window: "Window", rate: float) -> dict[str, str]:
    shown = {"step": str(window.step)}
    if window.loss is not None:
        shown["loss"] = f"{window.loss:.4g}"
    if window.grad_norm is not None:
        shown["norm"] = f"{window.grad_norm:.3g}"
    shown["items/s"] = f"{rate:.3g}"
    return shown


def progress_for(*, wanted: bool) -> WindowProgress:
    if wanted and sys.stderr is not None and sys.stderr.isatty():
        return Bar()
    return NoBar()


def windows_in(batches: int | None, size: int) -> int | None:
    return None if batches is None else math.ceil(batches / size)


# What is told of each window to the `log=` callable: a step and named numbers.
#
# TensorBoard in three lines:
#
#     def log(step, values):
#         for name, value in values.items():
#             writer.add_scalar(name, value, step)


Log = Callable[[int, Mapping[str, float]], object]


class ForgivingLog:
    """A log that fails at its first call never worked: that is raised. One that has worked, and
    fails when a disk is full or a server away, does not cost the training: it is told once, and
    called again after the next window."""

    def __init__(self, log: Log, journal: Journal) -> None:
        self._log = log
        self._journal = journal
        self._works = False
        self._told = False

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        try:
            self._log(step, values)
            self._works = True
        except Exception as error:
            if not self._works:
                raise
            if not self._told:
                self._told = True
                warn_at(
                    self._journal.site,
                    f"log= failed at step {step} ({type(error).__name__}: {error}): the training "
                    "goes on, and calls it again after the next window",
                )


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


# How much of a model trains, told once where it is not plain: a part is frozen, or it was meant to
# be. A base that trains beside its adapters costs memory, and the base, and nobody is told.


ADAPTERS = "peft"
"""Models of this package are meant to train in part."""

_told: set[str] = set()
"""Programs build many engines over one model, in a search or a test: each sentence is told once."""


def tell_census(owners: dict[str, Owner]) -> None:
    for owner in owners.values():
        line = census(owner)
        if line is None or sys.stderr is None:
            continue
        whole = line if owner.alone else f"{owner.name}: {line}"
        if whole not in _told:
            _told.add(whole)
            print(f"gradkeeper: {whole}", file=sys.stderr, flush=True)


def census(owner: Owner) -> str | None:
    """None where all of it trains, as it plainly should."""
    everything = list(owner.model.parameters())
    owned = {id(p) for p in parameters_of(owner.optimizer)}
    training = [p for p in everything if p.requires_grad and id(p) in owned]
    missing = [p for p in everything if p.requires_grad and id(p) not in owned]
    if len(training) == len(everything) and not _has_adapters(owner.model):
        return None
    numbers, of = sum(p.numel() for p in training), sum(p.numel() for p in everything)
    line = (
        f"{len(training)} of {len(everything)} tensors train, {_percent(numbers, of)} of the "
        "numbers"
    )
    if missing:
        line += f"; {len(missing)} more ask for gradients, and the optimizer does not have them"
    return line


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    if part and share < 0.1:
        return "less than 0.1 %"
    if share < 10:
        return f"{share:.1f} %"
    # Not 100 while something is left out.
    return f"{int(share)} %"


def _has_adapters(model: nn.Module) -> bool:
    return any(type(module).__module__.split(".")[0] == ADAPTERS for module in model.modules())
