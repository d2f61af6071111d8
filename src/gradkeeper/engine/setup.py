"""From what the user passed to owners, each checked; and the books opened for them."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from gradkeeper.engine.clipping import Clip, ClipNorm, ClipValue, NoClip
from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.owner import Owner, check_ownership, device_of, parameters_of
from gradkeeper.engine.precision import precision_named
from gradkeeper.engine.schedule import schedule_of
from gradkeeper.model.events import Adopt, Open

PrecisionName = Literal["fp32", "bf16", "fp16"]
ONLY = "optimizer"
"""The owner's name where there is one and the user gave none."""

Value = TypeVar("Value")


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
    for name, one in optimizers.items():
        unowned = check_ownership(name, models[name], one)
        owners[name] = Owner(
            name=name,
            model=models[name],
            optimizer=one,
            schedule=schedule_of(schedulers.get(name), one, name),
            clip=_clip(norms.get(name), values.get(name)),
            precision=precision_named(precision, device_of(one)),
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
    option: str, given: Value | Mapping[str, Value] | None, models: Mapping[str, object]
) -> dict[str, Value]:
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


def _clip(norm: float | None, value: float | None) -> Clip:
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
