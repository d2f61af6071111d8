"""An owner: a model, the optimizer that spends its gradients, and how; what ticks with its steps.
Made and checked from what the user passed.
"""

import sys
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.gradients import ClipNorm, Clipping, ClipValue, NoClip, clear, gradients
from gradkeeper.engine.journal import Journal, warn_at
from gradkeeper.engine.precision import Precision, precision_named
from gradkeeper.model import Site
from gradkeeper.model.events import Adopt, Open

# What ticks once per step taken: nothing, or a scheduler. Those fed by a metric are the user's.

PATIENT = 2
"""Epochs without a metric that may be on purpose: not everybody validates after each."""


class Schedule(Protocol):
    name: str | None
    """On the tape; None where nothing ticks."""
    scheduler: Any
    """Whose state is kept; None where there is none."""

    def tick(self) -> None:
        """A step was taken."""

    def begin_epoch(self, site: Site) -> None: ...


class NoSchedule:
    name: str | None = None
    scheduler: Any = None

    def tick(self) -> None:
        return

    def begin_epoch(self, site: Site) -> None:
        return


class FedByMetric:
    """Its metric is the user's, and so are its ticks. Whoever leaves them out is told."""

    name: str | None = None

    def __init__(self, scheduler: Any, owner: str) -> None:
        self.scheduler = scheduler
        self._epochs = 0
        self._reminder = Reminder(scheduler, owner)
        weakref.finalize(self, self._reminder.tell_end)

    def tick(self) -> None:
        self._reminder.due = True

    def begin_epoch(self, site: Site) -> None:
        self._epochs += 1
        if self._epochs > PATIENT and self._reminder.due:
            self._reminder.due = False
            if not self.scheduler.last_epoch:
                warn_at(site, self._reminder.text)


class Reminder:
    def __init__(self, scheduler: Any, owner: str) -> None:
        kind = type(scheduler).__name__
        self.text = (
            f"{kind}, the scheduler of {owner!r}, has never been stepped: its metric is yours. "
            "Call scheduler.step(validation_loss) after each validation, between windows; the "
            "engine keeps its state"
        )
        self.due = False
        """Whether steps were taken, and nobody has been told."""
        self._scheduler = scheduler

    def tell_end(self) -> None:
        if self.due and not self._scheduler.last_epoch and sys.stderr is not None:
            print(f"gradkeeper: {self.text}", file=sys.stderr, flush=True)


class Ticking:
    name: str | None = "scheduler"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def tick(self) -> None:
        self.scheduler.step()

    def begin_epoch(self, site: Site) -> None:
        return


def schedule_of(scheduler: Any, optimizer: Optimizer, owner: str) -> Schedule:
    if scheduler is None:
        return NoSchedule()
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise SetupError(f"the scheduler of {owner!r} was built for another optimizer than its own")
    if isinstance(scheduler, ReduceLROnPlateau):
        return FedByMetric(scheduler, owner)
    return Ticking(scheduler)


# The owner itself.


@dataclass(slots=True, eq=False)
class Owner:
    name: str
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    clip: Clipping
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
        return next(
            (parameter.device for parameter in parameters_of(self.optimizer)), torch.device("cpu")
        )

    def open(self, site: Site) -> None:
        """Starts from nothing. Leftovers would be spent at an unknown weight."""
        self.parameters = parameters_of(self.optimizer)
        self.device = device_of(self.optimizer)
        held = gradients(self.parameters) + gradients(self._hoarders())
        if not held:
            return
        if any(bool(torch.count_nonzero(_values(gradient))) for gradient in held):
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
        ids = {id(parameter) for parameter in wanted}
        return [name for name, parameter in self.model.named_parameters() if id(parameter) in ids]


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


class TrainedWeights:
    """Of an optimizer that has others to evaluate (train() and eval(), as schedule-free ones): the
    way there and back rounds, and a run that was cut off on it goes on without that."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        swaps = all(callable(getattr(optimizer, name, None)) for name in ("train", "eval"))
        held = parameters_of(optimizer) if swaps else []
        self._kept = [(p, p._version, p.detach().clone()) for p in held]
        self._settings = _settings(optimizer)

    def restore(self) -> None:
        if _settings(self._optimizer) != self._settings:
            return  # not back yet
        with torch.no_grad():
            for parameter, version, weights in self._kept:
                if parameter._version != version:
                    parameter.copy_(weights)


def _settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """In which of them it says whether it trains, each optimizer in its own way."""
    return [
        {name: value for name, value in held.items() if isinstance(value, bool | int | float | str)}
        for held in (vars(optimizer), *optimizer.param_groups)
    ]


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


# From what the user passed to owners, each checked; and the books opened for them.


PrecisionName = Literal["fp32", "bf16", "fp16"]
ONLY = "optimizer"
"""The owner's name where there is one and the user gave none."""

Option = TypeVar("Option")


def owners_of(
    model: nn.Module | Mapping[str, nn.Module],
    optimizer: Optimizer | Mapping[str, Optimizer],
    scheduler: Any,
    clip_norm: float | Mapping[str, float] | None,
    clip_value: float | Mapping[str, float] | None,
    precision: str,
) -> dict[str, Owner]:
    models, optimizers = _paired(model, optimizer)
    schedulers = _by_owner("scheduler", scheduler, models)
    norms = _by_owner("clip_norm", clip_norm, models)
    values = _by_owner("clip_value", clip_value, models)
    accounts = _accounts(optimizers)
    owners = {}
    for name, spender in optimizers.items():
        unowned = check_ownership(name, models[name], spender)
        owners[name] = Owner(
            name=name,
            model=models[name],
            optimizer=spender,
            schedule=schedule_of(schedulers.get(name), spender, name),
            clip=_clip(norms.get(name), values.get(name)),
            precision=precision_named(precision, device_of(spender)),
            alone=len(models) == 1,
            accounts=tuple("+".join(shared) for shared in accounts if name in shared),
            unowned=unowned,
        )
    return owners


def _paired(model: object, optimizer: object) -> tuple[dict[str, nn.Module], dict[str, Optimizer]]:
    match model, optimizer:
        case nn.Module(), Optimizer():
            return {ONLY: model}, {ONLY: optimizer}
        case Mapping(), Mapping() if not isinstance(model, nn.Module):
            if model and set(model) == set(optimizer):
                return dict(model), dict(optimizer)
            raise SetupError(
                f"models and optimizers need the same names, one at least: {sorted(model)} "
                f"and {sorted(optimizer)}"
            )
    raise SetupError(
        "Engine takes a model and an optimizer, or a dict of each with the same names, not "
        f"{type(model).__name__} and {type(optimizer).__name__}"
    )


def _by_owner(
    option: str, given: Option | Mapping[str, Option] | None, models: Mapping[str, object]
) -> dict[str, Option]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        strangers = sorted(set(given) - set(models))
        if strangers:
            raise SetupError(f"{option} names {strangers}; the owners are {sorted(models)}")
        return dict(given)
    if option == "scheduler" and len(models) > 1:
        raise SetupError("with several owners, scheduler is a dict by owner")
    return dict.fromkeys(models, given)


def _clip(norm: float | None, value: float | None) -> Clipping:
    for option, bound in (("clip_norm", norm), ("clip_value", value)):
        if bound is not None and not bound > 0:
            raise SetupError(f"{option} is a number above 0, not {bound}")
    if norm is not None and value is not None:
        raise SetupError("clip_norm or clip_value, not both")
    if norm is not None:
        return ClipNorm(float(norm))
    if value is not None:
        return ClipValue(float(value))
    return NoClip()


def _accounts(optimizers: Mapping[str, Optimizer]) -> dict[tuple[str, ...], list[Tensor]]:
    """Parameters by who owns them: one account for each set of owners."""
    owners: dict[int, list[str]] = {}
    parameters: dict[int, Tensor] = {}
    for name, optimizer in optimizers.items():
        for parameter in parameters_of(optimizer):
            parameters[id(parameter)] = parameter
            known = owners.setdefault(id(parameter), [])
            if name not in known:
                known.append(name)
    accounts: dict[tuple[str, ...], list[Tensor]] = {}
    for key, names in owners.items():
        accounts.setdefault(tuple(names), []).append(parameters[key])
    return accounts


def open_books(owners: Iterable[Owner], journal: Journal) -> None:
    owners = list(owners)
    journal.here()
    accounts = _accounts({owner.name: owner.optimizer for owner in owners})
    names = {id(p): name for owner in owners for name, p in owner.model.named_parameters()}
    for shared, parameters in accounts.items():
        labels = tuple(names[id(p)] for p in parameters)
        trainable = any(p.requires_grad for p in parameters)
        account = "+".join(shared)
        journal.write(
            Open, account=account, parameters=labels, size=len(labels), trainable=trainable
        )
    for owner in owners:
        journal.write(Adopt, optimizer=owner.name, accounts=owner.accounts)
    journal.opened()
