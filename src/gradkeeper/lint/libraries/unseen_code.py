"""Code that is not seen: what it is given, and what it may have done with that."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.objects import (
    Function,
    Generator,
    Instance,
    Method,
    flatten,
)
from gradkeeper.lint.interpreter.values import Call, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.data import lend
from gradkeeper.lint.libraries.factors import UNKNOWN_FACTOR
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.nn import Module, module_of
from gradkeeper.lint.libraries.optim import (
    Optimizer,
)
from gradkeeper.lint.libraries.provenance import OPEN, OWN_LOSS, Modes
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.roles import Roles, kind_of, role_of, uses_of
from gradkeeper.lint.libraries.tensors import Tensor, mix
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


PARAMETERS = words("parameters named_parameters")
OF_TEXTS = words(
    """lower upper casefold title strip lstrip rstrip startswith endswith replace split rsplit
    partition rpartition removeprefix removesuffix isdigit isalpha splitlines"""
)
"""What these make of a text is the same whenever they are asked."""
MOST_OBJECTS = 64
"""Objects that are looked into for an optimizer or a network."""
DULL: frozenset[type[Value]] = frozenset((Unknown, Constant))
"""What holds no parameters, and nothing that does."""
PLAIN: frozenset[type[Value]] = frozenset((Constant,))


def unseen(what: Value, call: Call) -> Value:
    """The result of code that cannot be looked into, and what it may have done."""
    m = call.m
    values = call.values()
    last = what.text.rpartition(".")[2]
    receiver = what.of if isinstance(what, Unknown) else None
    tensors = False
    factor_known = True
    handed: dict[RecordedOwner, None] = {}
    networks: list[Module] = []
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
            elif isinstance(role, Module) and value is not receiver:
                networks.append(role)
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
    kinds = {type(value) for value in given}
    dull = kinds <= DULL
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
    own = receiver is not None and _is_network(m, receiver)
    looks_only = own and not m.state(Modes).grad
    if guesses.may_step(last) and not (ticks or looks_only) and _reaches_weights(m, what, values):
        m.state(RunTape).lose_sight(m, f"`{last}`, which is not seen, may take a step")
    if (tensors or own or leaves_in(what.sources())) and m.state(Modes).grad:
        if given_data(m, call) or (own and m.loops and (values or call.open)):
            return _computed(m, what, values, own=own, factor_known=factor_known)
    keeps = _keeps_parameters(m, what)
    trained = [] if dull else [value for value in given if _is_trained(value)]
    if not guesses.is_harmless(last):
        for network in networks if m.loops and m.state(Modes).grad else ():
            m.state(RunTape).lent_networks.update(dict.fromkeys(network.leaves()))
        _tell_lent(m, receiver, trained)
        _tell_lent_now(m, given)
    if trained and receiver is not None:
        m.state(Roles).keepers.add(receiver.key)
        m.kept.append(receiver)
    plain = kinds <= PLAIN
    if receiver is not None and not plain:
        m.state(Roles).weightless.discard(receiver.key)
    inside = bool(m.loops)
    fresh = inside and not values and not what.fixed
    # Asked for again in the next round, it may say something else.
    same = isinstance(what, Constant) or last in OF_TEXTS
    settled = None if same or not inside else False
    shown = ", ".join(value.text for value in values) if last in OF_TEXTS else ""
    result = m.unknown(f"{what.text}({shown})", what, *values, element=fresh, fixed=settled)
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


def _tell_lent_now(m: Machine, given: Sequence[Value]) -> None:
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


def given_data(m: Machine, call: Call) -> bool:
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
