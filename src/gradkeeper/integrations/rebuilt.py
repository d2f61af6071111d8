"""Notes when a cell that builds an optimizer is run again, and the new one goes on with the old
one's weights: what the old one remembered is lost, silently.

Told when the new one first steps, and only if the weights are as the old one left them: whoever
resets or loads them first means to begin anew. Another cell's optimizer is another phase of a plan.
"""

from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


@dataclass
class Trained:
    """What the optimizer that last stepped on a weight had done by then."""

    optimizer: ref[Optimizer]
    weight: ref[torch.Tensor]
    steps: int = 0
    memory: tuple[str, ...] = ()
    content: object = None

    def left(self, weight: torch.Tensor) -> bool:
        """Whether the weight is as this optimizer left it."""
        return self.weight() is weight and self.content == content_of(weight)


@dataclass(frozen=True)
class Built:
    """The optimizer of a variable, its cell, and those that the same cell had put there before."""

    optimizer: ref[Optimizer]
    cell: str
    before: tuple[ref[Optimizer], ...] = ()


class Rebuilt:
    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._trained: dict[int, Trained] = {}
        self._built: dict[str, Built] = {}
        self._went_on: dict[ref[Optimizer], Trained] = {}
        """Who stepped, in the cell that runs, on weights as another optimizer had left them."""
        self._handles: list[Any] = []

    def begin(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._steps),
            register_optimizer_step_post_hook(self._stepped),
        ]
        self._shell.events.register("post_run_cell", self._ran)

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._shell.events.unregister("post_run_cell", self._ran)

    def _steps(self, optimizer: Optimizer, *_: object) -> None:
        weight = first_weight(optimizer)
        known = self._trained.get(id(weight))
        if known is None or weight is None or known.optimizer() is optimizer:
            return
        if known.left(weight):
            self._went_on.setdefault(ref(optimizer), known)

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
        weight = first_weight(optimizer)
        if weight is None:
            return
        known = self._trained.get(id(weight))
        if known is None or known.optimizer() is not optimizer or known.weight() is not weight:
            living = {
                key: entry for key, entry in self._trained.items() if entry.weight() is not None
            }
            known = Trained(ref(optimizer), ref(weight))
            self._trained = {**living, id(weight): known}
        known.steps += 1
        known.memory = memory_of(optimizer, weight)
        known.content = content_of(weight)

    def _ran(self, result: ExecutionResult) -> None:
        info: Any = result.info
        cell = info.cell_id or info.raw_cell
        went_on, self._went_on = self._went_on, {}
        for name, value in list(self._shell.user_ns.items()):
            if isinstance(value, Optimizer) and not name.startswith("_"):
                built = self._bind(name, value, cell)
                trained = went_on.get(built.optimizer)
                if trained is not None and trained.optimizer in built.before:
                    self._tell(name, value, trained)

    def _bind(self, name: str, optimizer: Optimizer, cell: str) -> Built:
        known = self._built.get(name)
        if known is not None and known.optimizer() is optimizer:
            return known
        again = known is not None and known.cell == cell
        before = (*known.before, known.optimizer) if known is not None and again else ()
        built = self._built[name] = Built(ref(optimizer), cell, before)
        return built

    def _tell(self, name: str, optimizer: Optimizer, trained: Trained) -> None:
        lost = self._lost(optimizer, trained)
        if not lost:
            return
        steps = f"{trained.steps} step{'s' if trained.steps > 1 else ''}"
        print(
            f"gradkeeper: `{name}` was built again, over weights that the one before had trained "
            f"for {steps}: {', and '.join(lost)}. To train on, run only the cell that trains; to "
            "begin anew, build the model again as well"
        )

    def _lost(self, optimizer: Optimizer, trained: Trained) -> list[str]:
        lost = []
        if trained.memory:
            kind = type(optimizer).__name__
            lost.append(f"what {kind} remembered of them ({', '.join(trained.memory)}) is lost")
        for name, value in self._shell.user_ns.items():
            if isinstance(value, LRScheduler) and value.optimizer is trained.optimizer():
                lost.append(f"`{name}` still steers the one before")
        return lost


def first_weight(optimizer: Optimizer) -> torch.Tensor | None:
    """One parameter stands for all: they are stepped together."""
    return next(
        (parameter for group in optimizer.param_groups for parameter in group["params"]), None
    )


def memory_of(optimizer: Optimizer, weight: torch.Tensor) -> tuple[str, ...]:
    held = optimizer.state.get(weight, {})
    return tuple(key for key, value in held.items() if key != "step" and value is not None)


def content_of(weight: torch.Tensor) -> object:
    """Changes whenever the weight is written to."""
    return weight.data_ptr(), weight._version
