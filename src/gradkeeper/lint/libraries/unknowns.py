"""Calls of unknown values and of their methods: what they are shows in what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Unknown, Value
from gradkeeper.lint.libraries.amp import GradScaler
from gradkeeper.lint.libraries.factors import UNKNOWN_FACTOR
from gradkeeper.lint.libraries.gradients import retains
from gradkeeper.lint.libraries.leaves import leaves_in
from gradkeeper.lint.libraries.nn import SAME, Module
from gradkeeper.lint.libraries.optim import (
    Optimizer,
    stranger,
    take_step,
)
from gradkeeper.lint.libraries.provenance import OPEN, Modes
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.roles import (
    SHOWS_MODULE,
    Roles,
    as_module,
    as_optimizer,
    as_scheduler,
    kind_by_use,
    kind_of,
    name_of,
    role_of,
    take_for,
    uses_of,
)
from gradkeeper.lint.libraries.tensors import QUESTIONS, Finite, Tensor, credit, mix
from gradkeeper.lint.libraries.unseen_code import given_data, unseen
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


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
    if not isinstance(network, Module) or kind_by_use(uses_of(m, of), "") != "engine":
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


def _nothing(m: Machine, of: Unknown, call: Call) -> Value | None:
    """What FSDP2 does ahead of a backward changes no gradient."""
    return NONE


METHODS = {
    "backward": _backward,
    "set_modules_to_backward_prefetch": _nothing,
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
        if given_data(m, call) or _trains_on_the_same(m, what, call):
            return mix(m, f"{what.text}()", as_module(m, what), *call.values())
    result = unseen(what, call)
    if what.given and kind_of(m, what) == "module" and isinstance(result, Unknown):
        # Of data or of options: a loss that is made of it may reach a network that is not seen.
        return result.made_of(OPEN)
    return result


def _trains_on_the_same(m: Machine, what: Unknown, call: Call) -> bool:
    """A network that an optimizer has is run in a loop, on what was there before: a whole graph."""
    role = m.state(Roles).found.get(what.key)
    if role is None or not (m.loops and call.args and m.state(Modes).grad):
        return False
    own = leaves_in(role.sources())
    return any(not own.isdisjoint(owner.leaves) for owner in m.state(RunTape).owners)


def _makes(m: Machine, what: Unknown) -> bool:
    """A class that is given a tensor makes a network of it: `GatedNet(mask)`.

    One that it has made is no class any more: `net = GatedNet(mask)` and then `net(x)`.
    """
    if what.text.endswith("()"):
        return False
    named = guesses.is_class(what.text.rpartition(".")[2])
    return named and uses_of(m, what).isdisjoint(SHOWS_MODULE)
