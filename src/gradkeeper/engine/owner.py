"""An owner: a model, the optimizer that spends its gradients, and how."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gradkeeper.engine.clipping import Clip
from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.gradients import clear, gradients
from gradkeeper.engine.precision import Precision
from gradkeeper.engine.schedule import Schedule
from gradkeeper.engine.warning import warn_at
from gradkeeper.model import Site


@dataclass(slots=True, eq=False)
class Owner:
    name: str
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    clip: Clip
    precision: Precision
    alone: bool
    """The engine's only owner: a backward then fills every leaf it reaches, as it always does."""
    accounts: tuple[str, ...]
    """Its parameters' names in the books."""
    unowned: list[Tensor]
    """The model's parameters that the optimizer does not have; they must not hoard gradients."""
    parameters: list[Tensor] = field(default_factory=list)
    """The optimizer's, as they were when the window opened: a group may have been added."""
    device: str = "cpu"
    """Where they were then; autocast asks."""
    steps: int = 0

    @property
    def home(self) -> torch.device:
        """Where its first parameter is."""
        return next((one.device for one in parameters_of(self.optimizer)), torch.device("cpu"))

    def open(self, site: Site) -> None:
        """Starts from nothing. Leftovers would be spent at an unknown weight."""
        self.parameters = parameters_of(self.optimizer)
        self.device = device_of(self.optimizer)
        held = gradients(self.parameters) + gradients(self._hoarders())
        if not held:
            return
        if any(bool(torch.count_nonzero(_values(one))) for one in held):
            warn_at(
                site,
                f"{_phrase(self)} already holds gradients when a window opens: they are cleared. "
                "Use window.backward(loss) inside the block, and loss.backward() nowhere else",
            )
        self.clear()

    def clear(self) -> None:
        self.optimizer.zero_grad()
        clear(self.parameters)
        clear(self._hoarders())

    def _hoarders(self) -> list[Tensor]:
        return self.unowned if self.alone else []

    def names_of(self, wanted: Iterable[Tensor]) -> list[str]:
        ids = {id(one) for one in wanted}
        return [name for name, one in self.model.named_parameters() if id(one) in ids]


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def device_of(optimizer: Optimizer) -> str:
    """Of its first parameter."""
    first = (p.device.type for group in optimizer.param_groups for p in group["params"])
    return next(first, "cpu")


def check_ownership(name: str, model: nn.Module, optimizer: Optimizer) -> list[Tensor]:
    """The model's parameters that are not the optimizer's; an error the other way round."""
    owned = {id(p) for p in parameters_of(optimizer)}
    known = {id(p) for p in model.parameters()}
    strangers = len(owned - known)
    if strangers:
        raise SetupError(
            f"{strangers} of {len(owned)} parameters of {name!r}'s optimizer are not its model's: "
            "build the optimizer after the model has its final layers, and pass "
            "nn.ModuleList([model, criterion]) if both are trained"
        )
    return [p for p in model.parameters() if id(p) not in owned]


def _values(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _phrase(owner: Owner) -> str:
    return "the model" if owner.alone else f"owner {owner.name!r}"
