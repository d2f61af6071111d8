"""Values that the source does not tell: what they are shows in what is done with them.

Whatever is learned of an unknown value is kept here, beside it: the optimizer it turned out to be,
the network whose parameters it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.objects import (
    Function,
    Generator,
    Instance,
    Method,
    StandIn,
    flatten,
)
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Either, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.amp import GradScaler
from gradkeeper.lint.libraries.data import lend
from gradkeeper.lint.libraries.factors import UNKNOWN_FACTOR
from gradkeeper.lint.libraries.gradients import retains
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.nn import SAME, Module, Parts, module_of, unseen_network
from gradkeeper.lint.libraries.optim import (
    Frameworks,
    Optimizer,
    Scheduler,
    stranger,
    take_step,
)
from gradkeeper.lint.libraries.provenance import OPEN, OWN_LOSS, Modes
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.tensors import QUESTIONS, Finite, Tensor, credit, mix
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

OF_SCALERS = words("scale unscale_ get_scale")
OF_SCHEDULERS = words("get_last_lr last_epoch step_update")
SHOWS_MODULE = words(
    "parameters named_parameters train eval named_modules modules forward children"
)

PARAMETERS = words("parameters named_parameters")
MOST_OBJECTS = 64
"""Objects that are looked into for an optimizer or a network."""
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
    """What a person would call it: the variable it was assigned to."""
    return m.labels.get(value.key) or value.text


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
        found = m.facts.kinds[named] = _kind_by_use(uses_of(m, value), name_of(m, value))
    return found


def _kind_by_use(uses: set[str], name: str) -> str:
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


def call_method(m: Machine, of: Value, name: str, call: Call, what: Unknown) -> Value:
    """A method of something unknown."""
    if not isinstance(of, Unknown):
        return unseen(what, call)
    handler = METHODS.get(name)
    if handler is not None:
        found: Value | None = handler(m, of, call)
        if found is not None:
            return found
    role = role_of(m, of)
    if role is not None and name in role.METHODS:
        return role.attribute(m, name).call(call)
    if guesses.steps_and_more(name) and kind_of(m, of) == "optimizer":
        return _step(m, of, Call(m)) or NONE
    if name in SAME and kind_of(m, of) == "module":
        if name in ("train", "eval"):
            as_module(m, of)
            mode = call.argument(0, "mode") if name == "train" else Constant(False)
            m.write(m.attributes_of(of), "training", mode or Constant(True))
        return of
    return unseen(what, call)


def _backward(m: Machine, of: Unknown, call: Call) -> Value | None:
    given = call.argument(0, "loss")
    if given is not None and (of.fixed or not of.sources()) and _is_loss(m, given):
        kind = kind_of(m, of)
        engine = _engine(m, of)
        credit(m, given, divided_by=UNKNOWN_FACTOR)
        if kind != "optimizer" and engine is None:
            m.doubt("a loss is handed to code that is not seen")
        return NONE
    credit(m, of, retains=retains(call, place=1))
    return NONE


def _engine(m: Machine, of: Unknown) -> Optimizer | None:
    """A network that goes back from its losses and steps by itself, as DeepSpeed's does."""
    network = role_of(m, of)
    if not isinstance(network, Module) or _kind_by_use(uses_of(m, of), "") != "engine":
        return None
    engines = m.state(Roles).engines
    found = engines.get(of.key)
    if found is None:
        found = engines[of.key] = stranger(m, name_of(m, of))
        m.kept.append(of)
        found.owner.known = found.owner.escaped = True
        found.owner.leaves = dict.fromkeys(network.leaves())
        with m.state(RunTape).beforehand():
            m.state(RunTape).note(m, ev.Adopt, (found.owner,), owner=found.owner)
    return found


def _is_loss(m: Machine, value: Value) -> bool:
    value = value.resolve(m)
    if isinstance(value, Tensor):
        return True
    return isinstance(value, Unknown) and not value.fixed


def _step(m: Machine, of: Unknown, call: Call) -> Value | None:
    kind = kind_of(m, of)
    engine = None if call.values() else _engine(m, of)
    if engine is not None:
        take_step(m, engine, None)
        return engine.zero_grad(Call(m))  # some do, and others are told to
    if kind == "optimizer" and len(call.args) > 1 and role_of(m, of) is None:
        return None  # that of a solver of equations: an optimizer's takes a closure at most
    if kind == "optimizer":
        found = as_optimizer(m, of)
        return found.attribute(m, "step").call(call) if found else None
    if kind == "scaler":
        return _scaler(m, of).attribute(m, "step").call(call)
    if kind == "scheduler":
        schedule = as_scheduler(m, of)
        return schedule.step(call) if schedule is not None else NONE
    if kind == "engine":
        m.doubt("an engine that is not seen takes the steps")
        return NONE
    if call.values() or of.data or not of.fixed:
        return None
    weightless = of.key in m.state(Roles).weightless and not m.items_of(of)
    if m.state(RunTape).backwards and not weightless:
        m.state(RunTape).lose_sight(m, "something that is not seen steps")
    return NONE


def _zero_grad(m: Machine, of: Unknown, call: Call) -> Value | None:
    if kind_of(m, of) == "optimizer":
        found = as_optimizer(m, of)
        return found.attribute(m, "zero_grad").call(call) if found else None
    return as_module(m, of).zero_grad(call)


def _scaler(m: Machine, of: Unknown) -> GradScaler:
    role = role_of(m, of)
    if not isinstance(role, GradScaler):
        role = GradScaler()
        m.state(RunTape).strange_scalers.append(role)
        role.named(m, name_of(m, of))
        take_for(m, of, role)
    return role


def _of_scaler(name: str):  # type: ignore[no-untyped-def]
    def method(m: Machine, of: Unknown, call: Call) -> Value | None:
        if kind_of(m, of) != "scaler":
            return None
        return _scaler(m, of).attribute(m, name).call(call)

    return method


def _of_module(name: str):  # type: ignore[no-untyped-def]
    def method(m: Machine, of: Unknown, call: Call) -> Value | None:
        if kind_of(m, of) == "optimizer":
            found = as_optimizer(m, of)
            return found.attribute(m, name).call(call) if found else None
        return as_module(m, of).attribute(m, name).call(call)

    return method


def _state(m: Machine, of: Unknown, call: Call) -> Value | None:
    kind = kind_of(m, of)
    if kind == "module":
        return as_module(m, of).state_dict(call)
    if kind == "optimizer":
        found = as_optimizer(m, of)
        return found.attribute(m, "state_dict").call(call) if found else None
    return None


def _requires_grad(m: Machine, of: Unknown, call: Call) -> Value | None:
    if not of.fixed or of.data:
        grown = m.state(Modes).grown
        tensor = grown.get(of.key)
        if tensor is None:
            tensor = grown[of.key] = Tensor(of.text)
            m.kept.append(of)
        return tensor.requires_grad_(call)
    return as_module(m, of).requires_grad_(call)


def _finite(name: str) -> Callable[[Machine, Unknown, Call], Value | None]:
    return lambda m, of, call: None if of.fixed else Finite(name, of)


def _cut_up(m: Machine, of: Unknown, call: Call) -> Value | None:
    """A batch in micro-batches: each counts as one of its own."""
    if not of.data:
        return None
    m.serial += 1
    return Unknown(("new", m.serial), f"{of.text} in parts", fixed=False, data=True)


METHODS = {
    "backward": _backward,
    "chunk": _cut_up,
    "split": _cut_up,
    "step": _step,
    "zero_grad": _zero_grad,
    "scale": _of_scaler("scale"),
    "unscale_": _of_scaler("unscale_"),
    "update": _of_scaler("update"),
    "parameters": _of_module("parameters"),
    "named_parameters": _of_module("named_parameters"),
    "state_dict": _state,
    "requires_grad_": _requires_grad,
    **{name: _finite(name) for name in QUESTIONS},
}


def call_unknown(what: Unknown, call: Call) -> Value:
    """A call of something unknown: a method, a network, or a function nobody sees."""
    m = call.m
    if what.of is not None and what.name:
        if not isinstance(what.of, Unknown) or kind_of(m, what) != "module" or what.name in METHODS:
            return call_method(m, what.of, what.name, call, what)
    used = kind_of(m, what)
    if what.fixed and used in ("module", "engine") and not _makes(m, what):
        modes = m.state(Modes)
        if modes.grad and m.loops and call.values():
            modes.unsynced_forward = modes.unsynced
        if _given_data(m, call):
            return mix(m, f"{what.text}()", as_module(m, what), *call.values())
    result = unseen(what, call)
    if what.given and kind_of(m, what) == "module" and isinstance(result, Unknown):
        # Of data or of options: a loss that is made of it may reach a network that is not seen.
        return result.made_of(OPEN)
    return result


def _makes(m: Machine, what: Unknown) -> bool:
    """A class that is given a tensor makes a network of it: `GatedNet(mask)`.

    One that it has made is no class any more: `net = GatedNet(mask)` and then `net(x)`.
    """
    if what.text.endswith("()"):
        return False
    named = guesses.is_class(what.text.rpartition(".")[2])
    return named and uses_of(m, what).isdisjoint(SHOWS_MODULE)


def _given_data(m: Machine, call: Call) -> bool:
    """Before any loop, what is not known is rather an option read from somewhere than data."""
    if call.open and m.loops:
        return True  # `model(**batch)`
    for argument in flatten(call.values()):
        if isinstance(argument, Tensor):
            return True
        if (
            isinstance(argument, Unknown)
            and not argument.fixed
            and (argument.data or m.loops or argument.given)
        ):
            return True
    return False


def unseen(what: Value, call: Call) -> Value:
    """The result of code that cannot be looked into, and what it may have done."""
    m = call.m
    values = call.values()
    last = what.text.rpartition(".")[2]
    receiver = what.of if isinstance(what, Unknown) else None
    tensors = False
    factor_known = True
    handed: dict[RecordedOwner, None] = {}
    roles = m.state(Roles).found
    given = flatten(values)
    for value in given if receiver is None else [*flatten([receiver]), *given]:
        if type(value) is Constant:
            continue
        if isinstance(value, Unknown):
            role = roles.get(value.key)
            if isinstance(role, Optimizer):
                escaped(m, role, last, own=value is receiver)
                handed[role.owner] = None
        elif isinstance(value, Tensor):
            tensors = tensors or bool(value.flow) or OPEN in value.others
            factor_known = factor_known and value.factor.number == 1.0 and not value.factor.below
        elif isinstance(value, Optimizer):
            escaped(m, value, last, own=value is receiver)
            handed[value.owner] = None
        elif isinstance(value, (Function, Method)):
            escape_function(m, value)
        elif isinstance(value, Generator):
            escape_function(m, value.function)
    dull = all(type(value) in DULL for value in given)
    if not dull:
        lend(values)
    holding = held_by(m, what)
    ticks = guesses.may_step(last) and _is_schedule(m, receiver)
    if holding and not ticks and not guesses.is_harmless(last):
        why = f"`{last}` of something that has an optimizer is not seen"
        m.state(RunTape).lose_sight(m, why, holding)
    if guesses.acts_on_gradients(last):
        m.doubt("gradients are handled in code that is not seen")
    elif guesses.reads_gradients(last) and m.state(RunTape).waiting:
        _read_gradients(m, [receiver, *values] if receiver is not None else values)
        if _keeps_parameters(m, what) or leaves_in(what.sources()):
            m.state(RunTape).hooked = True  # `attack.backup_grad()`: what it puts back may be less
    looks_only = not m.state(Modes).grad and receiver is not None and _is_network(m, receiver)
    if guesses.may_step(last) and not (ticks or looks_only) and _reaches_weights(m, what, values):
        m.state(RunTape).lose_sight(m, f"`{last}`, which is not seen, may take a step")
    own = receiver is not None and _is_network(m, receiver)
    if (tensors or own or leaves_in(what.sources())) and m.state(Modes).grad:
        if _given_data(m, call) or (own and m.loops and (values or call.open)):
            return _computed(m, what, values, own=own, factor_known=factor_known)
    keeps = _keeps_parameters(m, what)
    trained = [] if dull else [value for value in given if _is_trained(value)]
    if not guesses.is_harmless(last):
        _tell_lent(m, receiver, trained)
        _tell_lent_now(m, given)
    if trained and receiver is not None:
        m.state(Roles).keepers.add(receiver.key)
        m.kept.append(receiver)
    plain = all(type(value) is Constant for value in given)
    if receiver is not None and not plain:
        m.state(Roles).weightless.discard(receiver.key)
    inside = bool(m.loops)
    fresh = inside and not values and not what.fixed
    # Asked for again in the next round, it may say something else.
    settled = False if inside and not isinstance(what, Constant) else None
    result = m.unknown(f"{what.text}()", what, *values, element=fresh, fixed=settled)
    if result.fixed and (id(m.node) in m.facts.makers or guesses.is_class(last)):
        made = m.state(Roles).made
        number = made[result.key] = made.get(result.key, 0) + 1
        if number > 1:
            result = m.unknown(f"{what.text}()", what, *values, Constant(number))
    if result.fixed:
        m.state(Roles).given[result.key] = [value for value in values if isinstance(value, Unknown)]
        if plain and receiver is None and not (holding or keeps or call.open):
            m.state(Roles).weightless.add(result.key)
    if handed or holding:
        holders = m.state(Roles).holders
        holders[result.key] = {**handed, **holding}
        if handed and isinstance(receiver, Unknown) and not m.is_module(receiver):
            holders.setdefault(receiver.key, {}).update(handed)
    return result.made_of(OPEN) if keeps else result


def _tell_lent(m: Machine, receiver: Value | None, trained: list[Value]) -> None:
    """Code that is not seen has these parameters: it may freeze them, or move them by itself."""
    tape = m.state(RunTape)
    tape.lent_objects = tape.lent_objects or isinstance(receiver, Instance)
    for value in trained:
        module = module_of(value)
        if module is not None:
            tape.lent.update(dict.fromkeys(module.leaves()))
        elif isinstance(value, Tensor) and value.leaf is not None:
            tape.lent[value.leaf] = None


def _tell_lent_now(m: Machine, given: list[Value]) -> None:
    """Code that is not seen has these networks at this point: it may clear their gradients.

    Not where something is made of what it says: that is what it is called for. Nor where it is
    given more than networks and data, an option or a count: to clear, it needs none of that.
    """
    tape = m.state(RunTape)
    if not tape.steps or id(m.node) not in m.facts.bare:
        return
    networks = []
    for value in given:
        network = role_of(m, value) if isinstance(value, Unknown) else module_of(value)
        if isinstance(network, Module):
            networks.append(network)
        elif not isinstance(value, Tensor) and not (isinstance(value, Unknown) and value.data):
            return
    for network in networks:
        tape.lent_after.append((tape.notes[-1], network.leaves()))


DULL = (Unknown, Constant)
"""What holds no parameters, and nothing that does."""


def _is_trained(value: Value) -> bool:
    if type(value) in DULL:
        return False
    return module_of(value) is not None or (isinstance(value, Tensor) and value.leaf is not None)


def _keeps_parameters(m: Machine, what: Value) -> bool:
    """It, or what it is a part of, was given parameters: what it says may be made of them."""
    keepers = m.state(Roles).keepers
    whole: Value | None = what
    while keepers and isinstance(whole, Unknown):
        if whole.key in keepers:
            return True
        whole = whole.of
    return False


def hold(m: Machine, what: Unknown, value: Value) -> None:
    """Something out of sight is given an optimizer as an attribute."""
    lend([value])
    m.state(Roles).weightless.discard(what.key)
    for element in flatten([value]):
        role = role_of(m, element) if isinstance(element, Unknown) else element
        if isinstance(role, Optimizer):
            m.state(Roles).holders.setdefault(what.key, {})[role.owner] = None


def held_by(m: Machine, what: Value) -> dict[RecordedOwner, None]:
    """The optimizers that a value out of sight, or what it is a part of, was given."""
    holders = m.state(Roles).holders
    found: dict[RecordedOwner, None] = {}
    if not holders:
        return found
    whole: Value | None = what
    while isinstance(whole, Unknown):
        found.update(holders.get(whole.key, {}))
        whole = whole.of
    return found


def keep(m: Machine, what: Value) -> None:
    """What was given optimizers is at work from here on: around a block, or for each batch."""
    for owner in held_by(m, what):
        owner.escaped = owner.kept = True


def _is_schedule(m: Machine, value: Value | None) -> bool:
    return isinstance(value, Unknown) and kind_of(m, value) == "scheduler"


def _reaches_weights(m: Machine, what: Value, values: list[Value]) -> bool:
    """Whoever steps an optimizer must have it or the weights; `env.step(action)` has not."""
    receiver = what.of if isinstance(what, Unknown) else None
    if _holds_weights(m, values if receiver is None else [receiver, *values]):
        return True
    if isinstance(receiver, Instance):
        return False
    if not isinstance(what, Unknown) or "(" in what.text:
        return False  # made by a call that was given none of it
    return not what.given or not all(owner.known for owner in m.state(RunTape).owners)


def _holds_weights(m: Machine, values: list[Value]) -> bool:
    """An optimizer or weights are among these, or in what objects of the program hold."""
    seen: set[Hashable] = set()
    waiting = list(flatten(values))
    while waiting:
        value = waiting.pop()
        module = module_of(value)
        if module is None and (isinstance(value, Optimizer) or leaves_in(value.sources())):
            return True
        if module is not None and _has_an_owner(m, module):
            return True
        if isinstance(value, Unknown) and isinstance(role_of(m, value), (Optimizer, Module)):
            return True
        if not isinstance(value, Instance) or value.key in seen:
            continue
        if value.invented or len(seen) >= MOST_OBJECTS:
            return True
        seen.add(value.key)
        waiting += flatten([*value.attributes.values(), *value.given])
    return False


def _has_an_owner(m: Machine, module: Module) -> bool:
    """Some optimizer owns a part of it, or may do so."""
    owners = m.state(RunTape).owners
    owned = {id(leaf) for owner in owners for leaf in atoms(owner.leaves)}
    known = all(owner.known for owner in owners)
    return not known or any(id(leaf) in owned for leaf in atoms(module.leaves()))


def _read_gradients(m: Machine, values: list[Value]) -> None:
    """`network.get_grads()`, out of sight: whoever asks for gradients wants them for themselves."""
    leaves: dict[Leaf, None] = {}
    for element in flatten(values):
        role = role_of(m, element) if isinstance(element, Unknown) else None
        found = role.leaves() if isinstance(role, Module) else leaves_in(element.sources())
        leaves.update(dict.fromkeys(found))
    for note in m.state(RunTape).notes if not leaves else ():
        if note.kind is ev.Backward:
            leaves.update((target, None) for target in note.targets if isinstance(target, Leaf))
    if leaves:
        m.state(RunTape).note(m, ev.Read, leaves)


def _is_network(m: Machine, value: Value) -> bool:
    """The program asks it for its parameters."""
    if not isinstance(value, Unknown) or not value.fixed:
        return False
    return not uses_of(m, value).isdisjoint(PARAMETERS) and kind_of(m, value) == "module"


def _computed(
    m: Machine, what: Value, values: list[Value], *, own: bool, factor_known: bool
) -> Tensor:
    """What unseen code computes from data and parameters."""
    made = mix(m, f"{what.text}()", what, *values)
    if not (isinstance(what, Unknown) and what.given and made.flow):
        # A criterion that was handed in has no parameters that anybody would miss.
        made.others |= {OPEN}
    made.others = made.others | {OWN_LOSS} if own else made.others - {OWN_LOSS}
    if not factor_known:
        made.factor = UNKNOWN_FACTOR
    return made


def escaped(m: Machine, optimizer: Optimizer, to: str, *, own: bool = False) -> None:
    """An optimizer went to code that is not seen: it may do there what is missed here.

    `own`: a method of its own that is not seen.
    """
    if guesses.sees_to_rate(to):
        return
    owner = optimizer.owner
    harmless = guesses.is_harmless(to)
    owner.escaped = owner.escaped or not (own and harmless)
    if harmless:
        return
    # Before training, whatever it was put into is known, and what that does is asked for.
    owner.kept = owner.kept or bool(m.loops or m.state(RunTape).backwards)
    m.state(RunTape).unseen[f"an optimizer is handed to `{to}`, which is not seen"] = None
    if m.loops or m.state(RunTape).backwards:
        m.doubt("an optimizer is handed to code that is not seen")


def escape_function(m: Machine, function: Value) -> None:
    """A function of the program goes to code that is not seen, which may call it."""
    code = function.code if isinstance(function, Function) else function.function.code  # type: ignore[attr-defined]
    name = getattr(code, "name", "")
    if name in m.facts.credit_names or name in m.facts.step_names:
        m.state(RunTape).unseen[f"`{name}` is called by code that is not seen"] = None
        m.state(RunTape).driven = True
