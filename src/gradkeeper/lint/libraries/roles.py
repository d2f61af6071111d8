"""What an unknown value is taken for, by what is done with it: an optimizer, a network.

It is kept here, beside the value.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.objects import (
    Instance,
    StandIn,
)
from gradkeeper.lint.interpreter.values import Either, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.amp import GradScaler
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.nn import Module, Parts, module_of, unseen_network
from gradkeeper.lint.libraries.optim import (
    Frameworks,
    Optimizer,
    Scheduler,
    stranger,
)
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.tensors import Tensor

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


OF_SCALERS = words("scale unscale_ get_scale")
OF_SCHEDULERS = words("get_last_lr last_epoch step_update")
SHOWS_MODULE = words(
    "parameters named_parameters train eval named_modules modules forward children"
)
ABSTRACT = words("ABC abc.ABC Protocol")
"""Bases that set no attribute up."""


class Roles:
    """What unknown values turned out to be, by their keys."""

    def __init__(self) -> None:
        self.found: dict[Hashable, StandIn] = {}
        self.given: dict[Hashable, list[Unknown]] = {}
        """The unknown values that unseen code was given to make another one of."""
        self.made: dict[Hashable, int] = {}
        """How often unseen code was asked to make the same."""
        self.holders: dict[Hashable, dict[RecordedOwner, None]] = {}
        """Values out of sight that optimizers were put into, or that were made of them."""
        self.engines: dict[Hashable, Optimizer] = {}
        """What takes the steps of networks that do so themselves."""
        self.weightless: set[Hashable] = set()
        """Values that unseen code made of numbers and words alone, and that were given no more."""
        self.keepers: set[Hashable] = set()
        """Values out of sight that networks or parameters were put into."""


def uses_of(m: Machine, value: Value) -> set[str]:
    """The attributes that the program asks of whatever is written like this value."""
    return m.facts.uses_of(value.text.rpartition(".")[2], m.labels.get(value.key))


def name_of(m: Machine, value: Value) -> str:
    """What a person would call it: the variable that it, or what it is part of, stands in."""
    label = m.labels.get(value.key)
    if label is None and isinstance(value, Unknown) and value.of is not None and value.name:
        whole = m.labels.get(value.of.key)
        return f"{whole}.{value.name}" if whole is not None else value.text
    return label or value.text


def role_of(m: Machine, value: Unknown) -> StandIn | None:
    return m.state(Roles).found.get(value.key)


def take_for(m: Machine, value: Unknown, role: StandIn) -> StandIn:
    m.state(Roles).found[value.key] = role
    m.kept.append(value)
    return role


def as_optimizer(m: Machine, value: Value) -> Optimizer | None:
    """An unknown value that is stepped and zeroed, or handed to a scaler to be stepped."""
    value = value.resolve(m)
    native = getattr(value, "native", None)
    for candidate in (value, native):
        if isinstance(candidate, Optimizer):
            return candidate
    if not isinstance(value, Unknown):
        return None
    role = role_of(m, value)
    if role is None:
        made = _wrapper(m, value) or stranger(m, name_of(m, value))
        made.owner.inherited = not made.owner.known and _is_inherited(value)
        role = take_for(m, value, made)
    return role if isinstance(role, Optimizer) else None


def _is_inherited(value: Unknown) -> bool:
    """An attribute of an object of the program that a class sets which is not seen."""
    if not isinstance(value.of, Instance):
        return False
    bases = (base for cls in value.of.cls.ancestors() for base in cls.bases)
    return any(isinstance(base, Unknown) and base.text not in ABSTRACT for base in bases)


def _wrapper(m: Machine, value: Unknown) -> Optimizer | None:
    """Made of an optimizer, by code that is not seen: that optimizer, with something around it."""
    inside = set(atoms(leaves_in(value.sources())))
    for owner in m.state(RunTape).owners if inside else ():
        if owner.known and inside == set(atoms(owner.leaves)):
            if owner.wrapped_as not in (None, value.key):
                m.doubt("which of several optimizers is stepped is not seen")
            owner.wrapped_as = value.key
            made = Optimizer(owner)
            made.named_by = True
            owner.wrapped = guesses.is_class(value.text.removesuffix("()").rpartition(".")[2])
            return made
    return None


def as_module(m: Machine, value: Unknown) -> Module:
    role = role_of(m, value)
    if isinstance(role, Module):
        return role
    made = whole = None
    if value.of is not None:
        whole = module_of(value.of)
        if whole is None and isinstance(value.of, Unknown):
            # What has a network inside and is used as one itself holds that one's parameters.
            inner = kind_of(m, value.of) == "module"
            whole = as_module(m, value.of) if inner else None
        if whole is not None and whole.own is not None:
            made = whole.child(value.name)
    if made is None:
        made = _around(m, value) or _from_elsewhere(name_of(m, value), handed_in=value.given)
        if whole is not None:
            whole.takes_in(value.name, made)
    made.me = made
    take_for(m, value, made)
    m.state(Parts).turns_out(value, made)
    return made


def _from_elsewhere(name: str, *, handed_in: bool) -> Module:
    """A network that code made which is not seen."""
    made = unseen_network(name)
    assert made.own is not None
    made.own.elsewhere = True
    made.own.handed_in = handed_in
    return made


def _around(m: Machine, value: Unknown) -> Module | None:
    """Made of a network, by code that is not seen: a wrapper, with that network's parameters."""
    inside = set(leaves_in(value.sources()))
    for part in m.state(Roles).given.get(value.key, ()):
        if kind_of(m, part) == "module":
            inside.update(as_module(m, part).leaves())
    if not inside:
        return None
    name = name_of(m, value)
    made = Module(Leaf(name), name, seen=False)
    assert made.own is not None
    made.own.parts = tuple(sorted(inside, key=lambda leaf: leaf.name))
    return made


def copied(m: Machine, value: Value) -> Value:
    """deepcopy() of a module: a network of its own, that nobody is expected to train."""
    if isinstance(value, Either):
        return Either(value.condition, copied(m, value.yes), copied(m, value.no))
    if isinstance(value, Unknown) and kind_of(m, value) == "module":
        value = as_module(m, value)
    if isinstance(value, Unknown) and leaves_in(value.sources()):
        return m.unknown(value.text)  # unseen code made it of parameters: the copy has others
    module = module_of(value)
    if module is None:
        return value
    made = Module(Leaf("copy", trainable=False), "", seen=False)
    if not isinstance(value, Instance):
        return made
    for part in list(value.attributes.values()):
        if isinstance(part, Unknown) and kind_of(m, part) == "module":
            as_module(m, part)  # now it is one of the children
    twin = Instance(value.cls, m.count(value.cls), dict(value.attributes), made)
    made.me = twin
    made.own = None
    for name, child in module.children.items():
        copy = copied(m, child)
        if isinstance(copy, Tensor) and copy.leaf is not None:
            copy = Tensor(copy.text, leaf=Leaf(copy.leaf.name, trainable=False, tensor=True))
        made.children[name] = copy
        twin.attributes[name] = copy
    return twin


def as_scheduler(m: Machine, value: Unknown) -> Scheduler | None:
    """A schedule that was not seen being made: with one optimizer in sight, that one's."""
    role = role_of(m, value)
    if isinstance(role, Scheduler):
        return role
    owners = m.state(RunTape).owners
    if len(owners) != 1:
        return None
    made = Scheduler(Optimizer(owners[0]), seen=value.given)
    made.label = name_of(m, value)
    made.frozen_while = m.state(Frameworks).frozen_while
    take_for(m, value, made)
    return made


def kind_of(m: Machine, value: Unknown) -> str:
    """What the program uses an unknown value as."""
    role = role_of(m, value)
    if role is not None:
        for kind, name in ((Optimizer, "optimizer"), (Module, "module"), (GradScaler, "scaler")):
            if isinstance(role, kind):
                return name
        return "scheduler" if isinstance(role, Scheduler) else "other"
    if isinstance(value.of, StandIn) and value.of.OPTIONS:
        return ""
    named = (value.text.rpartition(".")[2], m.labels.get(value.key))
    found = m.facts.kinds.get(named)
    if found is None:
        found = m.facts.kinds[named] = kind_by_use(uses_of(m, value), name_of(m, value))
    return found


def kind_by_use(uses: set[str], name: str) -> str:
    if uses & OF_SCALERS and uses & {"step", "update", "unscale_"}:
        return "scaler"
    if "backward" in uses and "step" in uses and not uses & {"param_groups"}:
        return "engine"
    if uses & {"param_groups", "add_param_group"}:
        return "optimizer"
    if "zero_grad" in uses and "step" in uses and not uses & SHOWS_MODULE:
        return "optimizer"
    if uses & SHOWS_MODULE:
        return "module"
    if uses & OF_SCHEDULERS:
        return "scheduler"
    return guesses.kind_of(name, uses)
