"""Tensors, parameters and their gradients: where a value comes from, and what is done to it.

A tensor's numbers are never known. What matters is which parameters a loss was computed from, what
it was multiplied by on the way, and whether it is a mean.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from gradkeeper.lint.interpreter.containers import Slice, Tuple
from gradkeeper.lint.interpreter.expressions import OneShot
from gradkeeper.lint.interpreter.objects import BuiltIn, Generator, StandIn, flatten, visible
from gradkeeper.lint.interpreter.state import RaisedError
from gradkeeper.lint.interpreter.syntax import last_name
from gradkeeper.lint.interpreter.values import (
    NONE,
    NOTHING,
    Body,
    Call,
    Condition,
    Constant,
    Count,
    Provenance,
    Unknown,
    Value,
    negation,
    truth_value,
)
from gradkeeper.lint.libraries.leaves import Leaf, Leaves, atoms, leaves_in, words
from gradkeeper.lint.libraries.recording import ONE, UNKNOWN_FACTOR, Factor, Graph, Note, RunTape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

Reduction = Literal["mean", "sum"] | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A source: data that was had at this time of the run."""

    serial: int


@dataclass(frozen=True, slots=True)
class Made:
    """A source: data that the program made before it began to train."""

    serial: int


@dataclass(frozen=True, slots=True)
class Weights:
    """A source: the numbers of a parameter, without its history."""

    of: Leaf


@dataclass(frozen=True, slots=True, eq=False)
class Differentiated:
    """A source: backward() was called on the value before, with this note on the tape."""

    by: Note


@dataclass(slots=True, eq=False)
class Pass:
    """A source: a network was called once. PyTorch frees what it kept for it at the backward."""

    freed: bool = False
    live: set[Leaf] = field(default_factory=set)
    frozen: set[Leaf] = field(default_factory=set)
    """Its parameters, by whether they wanted a gradient then."""

    def through(self, leaves: Iterable[Leaf]) -> None:
        for leaf in leaves:
            (self.live if leaf.requires_grad else self.frozen).add(leaf)


GRAD = ("grad", "_grad")
OPEN = "parameters that are not seen"
"""A source: the value may depend on parameters that the source doesn't show."""
OWN_LOSS = "a network's own loss"
"""A source: a method of a network made it of data, and knows nothing of windows."""


class Modes:
    """What is switched on around the present line."""

    def __init__(self) -> None:
        self.grad = True
        self.autocast: str | None = None
        self.unsynced = False
        """DDP exchanges nothing now."""
        self.unsynced_forward: bool | None = None
        """What it was at the last forward: that is when DDP decides for the backward."""
        self.unsynced_shards = False
        """FSDP2 exchanges nothing now; it asks at the backward."""
        self.speaks_of_sync = False
        """Some backward ran without exchange between ranks: the others have one."""
        self.passing: Pass | None = None
        """The call of a network that is being run."""
        self.weights: dict[Hashable, Factor] = {}
        """What unknown values were multiplied by: any of them may be a loss."""
        self.grown: dict[Hashable, Tensor] = {}
        """What unknown values were made into in place, by `requires_grad_()`."""
        self.differentiated: dict[Hashable, Differentiated] = {}
        """Unknown values on which backward() was called."""


class Tensor(StandIn):
    """A tensor: computed, or (with `leaf`) one that collects gradients itself."""

    __slots__ = (
        "_text",
        "autocast",
        "factor",
        "flow",
        "graphs",
        "leaf",
        "others",
        "reduction",
        "scaler",
        "serial",
    )

    def __init__(
        self,
        text: str,
        flow: Leaves = frozenset(),
        others: Provenance = NOTHING,
        *,
        factor: Factor = ONE,
        reduction: Reduction = None,
        scaler: str | None = None,
        autocast: str | None = None,
        leaf: Leaf | None = None,
        serial: int = 0,
    ) -> None:
        self._text = text
        self.flow = flow
        self.others = others
        self.factor = factor
        self.reduction = reduction
        self.scaler = scaler
        self.autocast = autocast
        self.leaf = leaf
        self.serial = serial
        self.graphs: tuple[Graph, ...] = ()
        """Of the losses that it is the sum or the multiple of, once somebody has asked."""

    @property
    def key(self) -> Hashable:
        return ("tensor", self.serial or id(self))

    @property
    def text(self) -> str:
        return self._text

    @property
    def fixed(self) -> bool:
        return False

    def sources(self) -> Provenance:
        found = self.flow | self.others if self.flow and self.others else self.flow or self.others
        return found if self.leaf is None else found | {self.leaf}

    def absorbs(self) -> bool:
        return True

    def takes_part(self) -> bool:
        return self.leaf is not None

    def named(self, m: Machine, name: str) -> None:
        if self.leaf is not None and self.leaf.name == "tensor":
            self.leaf.name = name

    def truth(self, m: Machine) -> bool | Condition:
        return Condition("", self)

    def is_none(self, m: Machine) -> bool | Condition:
        return False

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return combined(m, sign, self, other, swapped=swapped)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        if self.leaf is not None:
            moved(m, Param([self.leaf]), (change,))
            return self
        if sign == "+" and isinstance(change, Tensor):
            return _grown(m, self, change)
        return None

    def invert(self, m: Machine, sign: str) -> Value:
        return self.like(m)

    def item(self, m: Machine, key: Value) -> Value:
        return self.like(m, reduction=None)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        self.flow |= leaves_in(value.sources())

    def iterate(self, m: Machine) -> Iterator[Value]:
        while True:
            yield self.like(m, reduction=None)

    def length(self, m: Machine) -> Value:
        around = m.rounds_over(self)
        if around is not None:
            return around
        return m.unknown(f"len({self.text})", data=True, fixed=False)

    def like(self, m: Machine, **changes: object) -> Tensor:
        """The same tensor after something that keeps its history."""
        made = Tensor(
            self._text,
            self.flow | (frozenset((self.leaf,)) if self.leaf else frozenset()),
            self.others,
            factor=changes.get("factor", self.factor),  # type: ignore[arg-type]
            reduction=changes.get("reduction", self.reduction),  # type: ignore[arg-type]
            scaler=self.scaler,
            autocast=self.autocast,
        )
        made.graphs = _graphs_of(self)
        return made

    def without_history(self) -> Tensor:
        return Tensor(self._text, frozenset(), _without_graph(self.others))

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name == "requires_grad":
            if value.truth(m) is True:
                self.collect()
            elif self.leaf is not None:
                self.leaf.requires_grad = False
        elif name in GRAD and self.leaf is not None:
            set_grad(m, Param([self.leaf]), value)
        elif name == "data" and self.leaf is not None:
            moved(m, Param([self.leaf]), (value,))
        else:
            StandIn.set_attribute(self, m, name, value)

    def delete_attribute(self, m: Machine, name: str) -> None:
        self.set_attribute(m, name, NONE)

    def collect(self) -> None:
        """From now on it collects gradients itself: an input, or weights by hand."""
        if self.leaf is None and not self.flow:
            self.leaf = Leaf("tensor", seen=True, trainable=False, tensor=True)
        elif self.leaf is not None:
            self.leaf.requires_grad = True

    def attribute(self, m: Machine, name: str) -> Value:
        if name in self.METHODS:
            return StandIn.attribute(self, m, name)
        if name in GRAD:
            if self.leaf is not None:
                return Grad(Param([self.leaf]))
            return m.unknown(f"{self.text}.grad", data=True, fixed=False)
        if name == "requires_grad":
            on = self.leaf is not None and self.leaf.requires_grad
            return Constant(True) if on or self.flow else m.unknown("requires_grad", fixed=False)
        if name == "data":
            return ParamData(Param([self.leaf])) if self.leaf else self.without_history()
        if name in PLAIN_ATTRIBUTES:
            return m.unknown(f"{self.text}.{name}", data=True, fixed=False)
        if name in CUTS:
            return BuiltIn(name, lambda call: _cut(self, call, name))
        return TensorMember(self, name)

    def _method(self, call: Call, name: str) -> Value:
        """Any other method: a tensor made of this one and of what it was given."""
        m = call.m
        if name.endswith("_") and not name.startswith("_") and self.leaf is not None:
            moved(m, Param([self.leaf]), tuple(call.args))
            return self
        made = mix(m, self.text, self, *call.values())
        if name in KEEPS:
            made.factor, made.reduction = self.factor, self.reduction
            made.graphs = _graphs_of(self)
        elif name.rstrip("_") in SIGN_NAMES and call.args:
            made = combined(m, SIGN_NAMES[name.rstrip("_")], self, call.args[0])
        else:
            made.factor = self.factor
        if name.endswith("_") and not name.startswith("_"):
            self.flow, self.others = made.flow, made.others
            self.factor, self.reduction = made.factor, made.reduction
            return self
        return made

    def is_kept(self, m: Machine, among: list[Value]) -> None:
        """`losses.append(loss)`: the list holds the graphs of all of them."""
        called = m.node.func if isinstance(m.node, ast.Call) else None
        if among and m.state(Modes).grad and _graphs_of(self) and isinstance(called, ast.Attribute):
            held = [
                graph for value in among if isinstance(value, Tensor) for graph in _graphs_of(value)
            ]
            m.state(RunTape).totals[m.site()] = (
                last_name(called.value),
                tuple(held[-MOST_GRAPHS:]),
            )

    @visible
    def backward(self, call: Call) -> Value:
        credit(call.m, self, retains=retains(call, place=1))
        return NONE

    @visible
    def mean(self, call: Call) -> Value:
        return self.like(call.m, reduction="mean", factor=self.factor)

    @visible
    def sum(self, call: Call) -> Value:
        return self.like(call.m, reduction="sum")

    @visible
    def requires_grad_(self, call: Call) -> Value:
        on = call.argument(0, "requires_grad")
        if on is not None and on.truth(call.m) is False:
            if self.leaf is not None:
                self.leaf.requires_grad = False
        else:
            self.collect()
        return self

    @visible
    def retain_grad(self, call: Call) -> Value:
        return NONE

    @visible
    def register_hook(self, call: Call) -> Value:
        return call.m.unknown("handle")

    @visible
    def clone(self, call: Call) -> Value:
        return self.like(call.m)

    @visible
    def to(self, call: Call) -> Value:
        return self  # a parameter may be there already


class TensorMember(Tensor):
    """Whatever else a tensor has: a method when it is called, else a part made of the same."""

    __slots__ = ("name", "of")

    def __init__(self, of: Tensor, name: str) -> None:
        flow = of.flow | (frozenset((of.leaf,)) if of.leaf else frozenset())
        super().__init__(of.text, flow, of.others, factor=of.factor, scaler=of.scaler)
        self.autocast = of.autocast
        self.of = of
        self.name = name

    def call(self, call: Call) -> Value:
        return self.of._method(call, self.name)


PLAIN_ATTRIBUTES = words("device dtype ndim is_cuda grad_fn is_leaf itemsize names")
CUTS = words(
    """detach detach_ item numpy tolist argmax argmin bool long int eq ne lt gt le ge isnan isinf
    isfinite size dim numel nelement data_ptr any all argsort nonzero element_size stride
    is_floating_point ndimension get_device"""
)
KEEPS = words(
    """float double half bfloat16 cuda cpu type view reshape squeeze unsqueeze contiguous flatten
    type_as to_dense"""
)
SIGN_NAMES = {
    "add": "+",
    "sub": "-",
    "subtract": "-",
    "mul": "*",
    "multiply": "*",
    "div": "/",
    "divide": "/",
    "true_divide": "/",
}


def _cut(tensor: Tensor, call: Call, name: str) -> Value:
    if name in ("detach", "detach_"):
        made = tensor.without_history()
        if name == "detach_":
            tensor.flow, tensor.leaf, tensor.others = made.flow, None, made.others
            return tensor
        return made
    if name in QUESTIONS:
        return Finite(name, tensor)
    return call.m.unknown(f"{tensor.text}.{name}()", data=True, fixed=False)


QUESTIONS = words("isnan isinf isfinite")


class Finite(StandIn):
    """isfinite(), isnan(): a question that training hopes never to answer badly."""

    __slots__ = ("name", "of")

    def __init__(self, name: str, of: Value) -> None:
        self.name = name
        self.of = of

    @property
    def text(self) -> str:
        return f"{self.name}({self.of.text})"

    @property
    def fixed(self) -> bool:
        return False

    @property
    def good(self) -> bool:
        """What it says of a training that goes well."""
        return self.name == "isfinite"

    def truth(self, m: Machine) -> bool | Condition:
        return Condition("", self)

    def attribute(self, m: Machine, name: str) -> Value:
        return BuiltIn(name, lambda call: self)

    def invert(self, m: Machine, sign: str) -> Value:
        return Finite("isnan" if self.good else "isfinite", self.of)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return self


def as_tensor(m: Machine, value: Value) -> Tensor:
    """A value seen as a tensor: what it was made of is where gradients go."""
    value = value.resolve(m)
    if isinstance(value, Tensor):
        return value
    grown = m.state(Modes).grown.get(value.key)
    if grown is not None:
        return grown
    factor = m.state(Modes).weights.get(value.key, ONE)
    return Tensor(value.text, leaves_in(value.sources()), _others(value.sources()), factor=factor)


def weigh(m: Machine, made: Unknown, of: Unknown, sign: str, by: Value, *, swapped: bool) -> None:
    """`of * by` or `of / by`, both unknown: keeps the weight for the case that it is a loss."""
    weights = m.state(Modes).weights
    m.kept.append(made)
    weights[made.key] = weights.get(of.key, ONE).times(_scaled(m, sign, by, swapped))


def _others(sources: Provenance) -> Provenance:
    return frozenset(source for source in sources if not isinstance(source, Leaf))


def mix(m: Machine, text: str, *values: Value) -> Tensor:
    """A tensor computed from these values, with gradients if they are on."""
    modes = m.state(Modes)
    flow: Leaves = frozenset()
    others: Provenance = NOTHING
    scaler = None
    for part in flatten(list(values)):
        if type(part) is Constant:
            continue
        if modes.grown and isinstance(part, Unknown):
            part = modes.grown.get(part.key) or part
        if isinstance(part, Tensor):
            scaler = scaler or part.scaler
            leaves, rest = part.flow, part.others
            if part.leaf is not None:
                leaves |= {part.leaf}
        else:
            sources = part.sources()
            if modes.differentiated and part.key in modes.differentiated:
                sources |= {modes.differentiated[part.key]}
            leaves = leaves_in(sources)
            rest = _others(sources) if leaves else sources
        flow = flow | leaves if flow and leaves else flow or leaves
        others = others | rest if others and rest else others or rest
    m.serial += 1
    made = Tensor(text[:200], frozenset(), others, serial=m.serial)
    if modes.grad:
        made.flow = flow
        made.autocast = modes.autocast
        made.scaler = scaler
        for value in values:
            if isinstance(value, Tensor) and value.autocast:
                made.autocast = value.autocast
    else:
        made.others = _without_graph(made.others)
    return made


def _without_graph(others: Provenance) -> Provenance:
    if not others:
        return others
    return frozenset(x for x in others if x != OPEN and not isinstance(x, (Differentiated, Pass)))


def combined(
    m: Machine, sign: str, tensor: Tensor, other: Value, *, swapped: bool = False
) -> Tensor:
    """Two operands, at least one of them a tensor."""
    other = other.resolve(m)
    made = mix(m, tensor.text, tensor, other)
    second = as_tensor(m, other) if _has_history(other) else None
    behind = _graphs_of(second) if second is not None else ()
    made.graphs = (*_graphs_of(tensor), *behind)[-MOST_GRAPHS:]
    if second is None or not (second.flow or OPEN in second.others):
        made.reduction = tensor.reduction
        made.factor = tensor.factor.times(_scaled(m, sign, other, swapped, tensor.factor.terms))
        if sign in ("+", "-") and _may_be_loss(other) and not tensor.factor.below:
            made.factor = ONE
        return made
    if not (tensor.flow or OPEN in tensor.others):
        made.reduction = second.reduction
        made.factor = second.factor if sign in "+-" else second.factor.times(UNKNOWN_FACTOR)
        if sign in "*/" and isinstance(other, Tensor):
            made.factor = second.factor
        return made
    made.reduction = tensor.reduction if tensor.reduction == second.reduction else None
    if sign in ("+", "-"):
        terms = tensor.factor.terms + second.factor.terms
        made.factor = replace(_larger(tensor.factor, second.factor), terms=terms)
        # One part is a mean, of the other nothing is known: what is wrong with that part is. With
        # a sum in it, nobody meant a mean.
        summed = "sum" in (tensor.reduction, second.reduction)
        made.reduction = "sum" if summed else tensor.reduction or second.reduction
    else:
        made.factor = ONE
    return made


MOST_GRAPHS = 8


def _graphs_of(tensor: Tensor) -> tuple[Graph, ...]:
    if not tensor.graphs and (tensor.flow or OPEN in tensor.others):
        tensor.graphs = (Graph(),)
    return tensor.graphs


def _grown(m: Machine, total: Tensor, loss: Tensor) -> Tensor:
    """`total += loss`: whoever looks at the total later holds all graphs that went into it."""
    made = combined(m, "+", total, loss)
    if m.state(Modes).grad and _graphs_of(loss) and isinstance(m.node, ast.AugAssign):
        m.state(RunTape).totals[m.site()] = (last_name(m.node.target), made.graphs)
    return made


def retains(call: Call, *, place: int | None = None) -> bool:
    """backward(retain_graph=True): the graph is for another one, which may be the total's.

    `place` is where the first of these options stands among the arguments.
    """
    asked = [call.kwargs.get("retain_graph"), call.kwargs.get("create_graph")]
    if place is not None:
        asked += call.args[place : place + 2]
    return any(option is not None and option.truth(call.m) is not False for option in asked)


def _may_be_loss(value: Value) -> bool:
    """Computed out of sight, from more than data."""
    return isinstance(value, Unknown) and not value.fixed and not value.data


def _has_history(value: Value) -> bool:
    return isinstance(value, Tensor) or bool(value.sources())


def _larger(factor: Factor, other: Factor) -> Factor:
    """The weight of a sum: that of its heaviest part. What single parts are weighed by is left out.

    A window's length is nobody's weight: it stands below the line, in all parts or in none.
    """
    if factor == other:
        return factor
    if ONE in (factor, other):
        return ONE  # whatever the rest is divided by, this part is not
    if factor.number is None or other.number is None or sorted_keys(factor) != sorted_keys(other):
        return UNKNOWN_FACTOR
    heavy = factor if abs(factor.number) >= abs(other.number) else other
    above = tuple(key for key in factor.above if key in other.above)
    return Factor(heavy.number, above, factor.below, factor.by_data or other.by_data)


def sorted_keys(factor: Factor) -> list[str]:
    return sorted(map(repr, factor.below))


def _scaled(m: Machine, sign: str, other: Value, swapped: bool, terms: int = 1) -> Factor:
    """What a loss is multiplied by when it meets this operand; the sum of so many `terms`."""
    if sign not in ("*", "/"):
        return ONE
    if swapped and sign == "/":
        return UNKNOWN_FACTOR
    number = m.known_number(other)
    if isinstance(other, Count):
        number = other.value if isinstance(other.value, (int, float)) else None
    if number is not None:
        if sign == "/":
            by = other.key if isinstance(other, Unknown) else float(number)
            # A sum over its number of terms is their mean.
            divisors = () if number == terms or number == 1 else (by,)
            return Factor(1 / number, divisors=divisors) if number else UNKNOWN_FACTOR
        return Factor(float(number))
    if isinstance(other, Unknown) and other.fixed:
        m.kept.append(other)
        if sign == "/":
            return Factor(below=(other.key,), divisors=(other.key,))
        return Factor(above=(other.key,))
    if isinstance(other, Tensor):
        # A mask or weights over the batch: still a loss per item.
        return ONE
    if isinstance(other, Unknown) and other.data:
        return Factor(by_data=True)
    return UNKNOWN_FACTOR


# -- what tensors do to gradients


def credit(
    m: Machine,
    loss: Value,
    *,
    divided_by: Factor = ONE,
    scaler: str | None = None,
    retains: bool = False,
) -> None:
    """backward(): gradients are added to what the loss was computed from."""
    tape, modes = m.state(RunTape), m.state(Modes)
    tensor = as_tensor(m, loss)
    for graph in _graphs_of(tensor) if not retains else ():
        graph.freed_at = tape.steps
    sources = tensor.sources()
    passes = [source for source in sources if isinstance(source, Pass)]
    then = {leaf for call in passes for leaf in call.live}
    still = {leaf for call in passes for leaf in call.frozen} - then
    live = [leaf for leaf in atoms(leaves_in(sources)) if leaf.requires_grad and leaf not in still]
    wanted = [leaf for leaf in live if not leaf.asked_for] or live
    # PyTorch refuses a loss of which nothing wanted a gradient: then something is missing here.
    opened = OPEN in tensor.others or not (live or then) or _is_gone(passes)
    for call in passes if not retains else ():
        call.freed = True
    inputs = [leaf for leaf in wanted if leaf.tensor and not leaf.trainable]
    for_inputs = _is_for_inputs(m, inputs, wanted)
    if not for_inputs and len(inputs) < len(wanted):
        owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
        wanted = [leaf for leaf in wanted if leaf not in inputs or leaf in owned]
    decided = modes.unsynced if modes.unsynced_forward is None else modes.unsynced_forward
    synced = None
    if decided or modes.unsynced_shards:
        modes.speaks_of_sync = True
        synced = False
    elif modes.speaks_of_sync or any(leaf.replicated for leaf in wanted):
        synced = True
    for leaf in wanted:
        leaf.used_at_rest = leaf.used_at_rest or leaf.resting
    tape.backwards += 1
    tape.waiting_loops.update(id(loop.node) for loop in m.loops)
    _begin_batch(m, tape, sources)
    name = scaler or tensor.scaler
    tape.note(
        m,
        ev.Backward,
        wanted,
        open=opened,
        factor=tensor.factor.times(divided_by),
        of_network=OWN_LOSS in tensor.others,
        reduction=tensor.reduction,
        leaf=for_inputs,
        scaler=name,
        autocast=tensor.autocast if name is None else None,
        coupled=any(leaf.coupled for leaf in wanted),
        synced=synced,
        within=tape.within.name if tape.within else None,
    )
    for source in sources:
        if isinstance(source, Differentiated):
            tape.repeated.add(source.by.site)
    if isinstance(loss, Tensor):
        loss.others |= {Differentiated(tape.notes[-1])}
    else:
        modes.differentiated[loss.key] = Differentiated(tape.notes[-1])
        m.kept.append(loss)
    for hook in m.state(GradHooks).hooks:
        hook.call(Call(m, [Param(wanted)]))
    if m.fault_due is not None:
        m.fault_due = None
        tape.note(m, ev.Fault, wanted, torn=True)
        raise RaisedError(m.unknown("an error", fixed=False), m.site())


def _is_gone(passes: list[Pass]) -> bool:
    """PyTorch refuses to go through a graph again: something is missing that made a new one."""
    return bool(passes) and all(call.freed for call in passes)


def _is_for_inputs(m: Machine, inputs: list[Leaf], wanted: list[Leaf]) -> bool:
    """It may have been run for its inputs' gradients: the program reads some."""
    if not inputs or not any("grad" in found for found in m.facts.uses.values()):
        return False
    return len(inputs) < len(wanted) or _only_inputs(m.state(RunTape), inputs, wanted)


def _begin_batch(m: Machine, tape: RunTape, sources: Provenance) -> None:
    """A round without data of its own shares the batch of an earlier one, as time steps do."""
    if tape.round_due is None:
        return
    source, site = tape.round_due
    fetched = {source.serial for source in sources if isinstance(source, Fetched)}
    if fetched:
        newest = _batch_around(m, fetched) or max(fetched)
        before, tape.newest = tape.newest, max(tape.newest, newest)
        if newest <= before or (before in fetched and tape.waiting):
            return  # of the same data, or of a state that goes on from it
    elif _is_the_same(m, tape, sources):
        return
    tape.round_due = None
    tape.batches += 1
    tape.note(m, ev.Batch, source=source, site=site)


def _batch_around(m: Machine, fetched: set[int]) -> int | None:
    """In a loop that steps only after it: when that began, if data of the loss was there by then,
    as are the crops and the time steps of a batch."""
    place = max((at for at, loop in enumerate(m.loops) if loop.kind == "batches"), default=0)
    if not place or not m.fills_window(m.loops[place].node):
        return None
    begun, end = m.loops[place - 1].round_begun, m.loops[place].begun
    return end if any(begun < serial <= end for serial in fetched) else None


def _is_the_same(m: Machine, tape: RunTape, sources: Provenance) -> bool:
    """In a loop that steps only after it: several losses of the data that the last one was of."""
    data = frozenset(source for source in sources if isinstance(source, Made))
    around = tuple(loop.index for loop in m.loops[:-1])
    before, tape.made_of = tape.made_of, (around, data)
    if not around or not m.fills_window(m.loops[-1].node):
        return False
    return before[0] == around and not data.isdisjoint(before[1])


def _only_inputs(tape: RunTape, inputs: list[Leaf], wanted: list[Leaf]) -> bool:
    if not inputs or len(inputs) != len(wanted):
        return False
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    return not all(leaf in owned for leaf in inputs)


def moved(m: Machine, param: Param, values: tuple[Value, ...]) -> None:
    """Weights were changed by hand."""
    given = flatten(list(values))
    by_gradient = any(uses_gradient(element) for element in given)
    others = {leaf for element in given for leaf in atoms(_whose_numbers(element.sources()))}
    if others.difference(atoms(param.leaves)) and not by_gradient:
        takes_over(m.state(RunTape), param.leaves)
    tape = m.state(RunTape)
    tape.note(m, ev.Move, param.leaves, gradient=by_gradient)
    if by_gradient:
        tape.spent()


def _whose_numbers(sources: Provenance) -> Iterator[Leaf]:
    for source in sources:
        if isinstance(source, Leaf):
            yield source
        elif isinstance(source, Weights):
            yield source.of


def takes_over(tape: RunTape, leaves: Iterable[Leaf]) -> None:
    """Their weights are another network's: nobody expects an optimizer for them."""
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    for leaf in atoms(leaves):
        if leaf not in owned:
            leaf.trainable = False


DISK = "a file"
"""A source: the value was read from a checkpoint."""
GRADIENT = "a gradient"
"""A source: the value was computed from somebody's .grad."""


def uses_gradient(value: Value) -> bool:
    return isinstance(value, Grad) or GRADIENT in value.sources()


def set_grad(m: Machine, param: Param, value: Value) -> None:
    """`p.grad = ...`."""
    tape = m.state(RunTape)
    if isinstance(value, Constant) and value.value is None:
        tape.note(m, ev.Zero, param.leaves, within=within_step(tape))
    elif isinstance(value, Grad) and value.of.key == param.key:
        tape.note(m, ev.Adjust, param.leaves)
    elif DISK in value.sources():
        tape.note(m, ev.Restore, param.leaves, gradients=True)
    else:
        tape.note(m, ev.Assign, param.leaves)


def within_step(tape: RunTape) -> str | None:
    return tape.within.name if tape.within else None


@dataclass(slots=True, eq=False)
class Params(Value):
    """model.parameters() and its like: a one-shot iterator, a list made of one, a filter of one."""

    leaves: tuple[Leaf, ...]
    label: str
    with_names: bool = False
    one_shot: bool = True
    used: bool = False
    whole: bool = True
    """All there is: nothing was left out under a condition that is not known."""

    @property
    def text(self) -> str:
        return self.label

    def sources(self) -> Provenance:
        return frozenset(self.leaves)

    def endless(self) -> bool:
        return False

    def truth(self, m: Machine) -> bool | Condition:
        return True

    def length(self, m: Machine) -> Value:
        return m.unknown(f"len({self.label})", self)

    def take(self, m: Machine, use: str) -> tuple[Leaf, ...]:
        """The parameters, once: what takes them from a used-up iterator gets none."""
        if self.one_shot:
            m.must_be_sure()  # `params if isinstance(params, list) else list(params)`
        if self.one_shot and self.used:
            m.state(RunTape).note(m, ev.Exhaust, use=use)
            return ()
        self.used = True
        return self.leaves

    def for_each(self, m: Machine, body: Body) -> None:
        """Runs the body for each group of parameters that its own conditions tell apart."""
        leaves = tuple(atoms(self.take(m, "this loop")))
        waiting: list[tuple[tuple[Leaf, ...], dict[Hashable, bool]]] = [(leaves, {})]
        rounds = 0
        while waiting and rounds < 16:
            group, answers = waiting.pop(0)
            if not group:
                continue
            rounds += 1
            element = Param(list(group), answers, waiting, self.label)
            if body(Tuple([ParamName(element), element]) if self.with_names else element):
                return

    def iterate(self, m: Machine) -> Iterator[Value]:
        leaves = list(atoms(self.take(m, "this loop")))
        if leaves:
            element = Param(leaves, {}, None, self.label)
            yield Tuple([ParamName(element), element]) if self.with_names else element

    def item(self, m: Machine, key: Value) -> Value:
        if isinstance(key, Slice):
            some = [leaf.split(key.key, both=False)[0] for leaf in atoms(self.leaves)]
            return Params(tuple(some), self.label, self.with_names, one_shot=False, whole=False)
        return Param(list(atoms(self.leaves)), {}, None, self.label)

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("append", "extend", "add", "update"):
            return _Growing(self)
        return Value.attribute(self, m, name)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if sign == "+" and isinstance(other, Params):
            return Params((*self.leaves, *other.leaves), self.label, self.with_names, False)
        return Value.operate(self, m, sign, other, swapped=swapped)


@dataclass(frozen=True, slots=True, eq=False)
class _Growing(Value):
    of: Params

    def call(self, call: Call) -> Value:
        for argument in call.args:
            self.of.leaves = (*self.of.leaves, *leaves_in(argument.sources()))
        return NONE


MOST_KNOWN = 6
"""Conditions that tell parameters apart: each may double their groups. Beyond, it is chance."""


@dataclass(slots=True, eq=False)
class Param(Value):
    """Stands for each parameter of a group in turn.

    A condition that some of them meet and others don't splits the group: this round goes on with
    those that do, and the others wait for a round of their own.
    """

    leaves: list[Leaf]
    answers: dict[Hashable, bool] = field(default_factory=dict)
    waiting: list[tuple[tuple[Leaf, ...], dict[Hashable, bool]]] | None = None
    label: str = "parameters"

    @property
    def key(self) -> Hashable:
        return ("param", *sorted(id(leaf) for leaf in atoms(self.leaves)))

    @property
    def text(self) -> str:
        return f"each of {self.label}"

    @property
    def fixed(self) -> bool:
        return False

    def sources(self) -> Provenance:
        return frozenset(self.leaves)

    def absorbs(self) -> bool:
        return True

    def decide(self, m: Machine, by: Hashable, condition: Condition) -> bool | Condition:
        """Answers a condition on single parameters by telling them apart."""
        if by in self.answers:
            return self.answers[by]
        if self.waiting is None:
            return condition
        leaves = list(atoms(self.leaves))
        if any(by not in leaf.known and len(leaf.known) >= MOST_KNOWN for leaf in leaves):
            return condition
        yes: list[Leaf] = []
        no: list[Leaf] = []
        for leaf in leaves:
            answer = leaf.known.get(by)
            if answer is None:
                passing, failing = leaf.split(by, both=False)
                yes.append(passing)
                no.append(failing)
            else:
                (yes if answer else no).append(leaf)
        if not yes:
            self.answers = {**self.answers, by: False}
            return False
        if no:
            self.waiting.append((tuple(no), {**self.answers, by: False}))
        self.leaves = yes
        self.answers = {**self.answers, by: True}
        return True

    def by_state(self, m: Machine) -> Value:
        """.requires_grad: known for each of them."""
        found = list(atoms(self.leaves))
        yes = [leaf for leaf in found if leaf.requires_grad]
        if len(yes) == len(found):
            return Constant(True)
        if not yes:
            return Constant(False)
        if self.waiting is not None:
            rest = tuple(leaf for leaf in found if not leaf.requires_grad)
            self.waiting.append((rest, dict(self.answers)))
        self.leaves = yes
        return Constant(True)

    def attribute(self, m: Machine, name: str) -> Value:
        if name in GRAD:
            return Grad(self)
        if name == "requires_grad":
            return self.by_state(m)
        if name == "data":
            return ParamData(self)
        if name == "requires_grad_":
            return BuiltIn(name, lambda call: self._set_requires_grad(call.m, call.argument(0)))
        if name == "detach_":
            return BuiltIn(name, lambda call: self._set_requires_grad(call.m, Constant(False)))
        if name in ("ndim", "shape", "dtype", "device", "is_leaf"):
            return ParamFact(self, "dim" if name == "ndim" else name)
        if name in ("dim", "size", "numel", "nelement", "ndimension"):
            return BuiltIn(name, lambda call: ParamFact(self, name.replace("ndimension", "dim")))
        if name in PLAIN_ATTRIBUTES or (name in CUTS and name not in ("detach", "detach_")):
            return m.unknown(f"{self.text}.{name}", fixed=False)
        return ParamMethod(self, name)

    def _set_requires_grad(self, m: Machine, on: Value | None) -> Value:
        answer = True if on is None else on.truth(m)
        m.must_be_sure()
        if isinstance(answer, Condition):
            answer = m.ask(answer)
        for leaf in atoms(self.leaves):
            leaf.requires_grad = answer
        return self

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name in GRAD:
            set_grad(m, self, value)
        elif name == "requires_grad":
            self._set_requires_grad(m, value)
        elif name == "data":
            moved(m, self, (value,))

    def delete_attribute(self, m: Machine, name: str) -> None:
        self.set_attribute(m, name, NONE)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        moved(m, self, (change,))
        return self

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return mix(m, self.text, self, other)

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        return Condition("in", element, self)


@dataclass(frozen=True, slots=True, eq=False)
class ParamName(Value):
    """The name in named_parameters(): what is asked of it tells parameters apart."""

    of: Param

    @property
    def key(self) -> Hashable:
        return ("name of", self.of.key)

    @property
    def text(self) -> str:
        return "name"

    @property
    def fixed(self) -> bool:
        return False

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        """`"bias" in name`."""
        return self.of.decide(m, ("in", element.key), Condition("in", element, self))

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        return self.of.decide(m, ("==", other.key), Condition("==", self, other))

    def within(self, m: Machine, container: Value) -> bool | Condition | None:
        """`name in names`."""
        return self.of.decide(m, ("within", container.key), Condition("in", self, container))

    def attribute(self, m: Machine, name: str) -> Value:
        return _NameMethod(self, name)

    def item(self, m: Machine, key: Value) -> Value:
        return self

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return m.unknown("a name", fixed=False)


@dataclass(frozen=True, slots=True, eq=False)
class ParamFact(Value):
    """p.dim(), p.shape: comparing it tells parameters apart."""

    of: Param
    name: str

    @property
    def key(self) -> Hashable:
        return (self.name, self.of.key)

    @property
    def text(self) -> str:
        return f"{self.of.text}.{self.name}"

    @property
    def fixed(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        return ParamFact(self.of, "dim")

    def item(self, m: Machine, key: Value) -> Value:
        return m.unknown(f"{self.text}[{key.text}]", fixed=False)

    def _asked(self, m: Machine, sign: str, other: Value) -> bool | Condition:
        condition = Condition(sign, self, other)
        bound = other.value if isinstance(other, Constant) else None
        if self.name == "dim" and isinstance(bound, (int, float)):
            # Of matrices and vectors, whichever way it is put.
            vector, matrix = (_holds(sign, size, bound) for size in (1, 2))
            if vector != matrix:
                answer = self.of.decide(m, "matrix", condition)
                return answer if matrix else negation(answer)
        return self.of.decide(m, (self.name, sign, other.key), condition)

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        return self._asked(m, "==", other)

    def compare(self, m: Machine, other: Value) -> bool | Condition:
        return self._asked(m, "<", other)

    def compared_by(self, m: Machine, other: Value) -> bool | Condition:
        return self._asked(m, ">", other)


def _holds(sign: str, size: int, bound: float) -> bool:
    return {"==": size == bound, "<": size < bound, ">": size > bound}[sign]


@dataclass(frozen=True, slots=True, eq=False)
class _NameMethod(Value):
    of: ParamName
    name: str

    def call(self, call: Call) -> Value:
        m, first = call.m, (call.args[0] if call.args else NONE)
        if self.name in ("startswith", "endswith", "find", "count"):
            by = (self.name, first.key)
            return truth_value(self.of.of.decide(m, by, Condition(self.name, self.of, first)))
        if self.name in ("split", "replace", "lower", "strip"):
            return self.of
        return m.unknown("a name", fixed=False)


@dataclass(frozen=True, slots=True, eq=False)
class ParamMethod(Value):
    """`p.add_(...)` moves weights; any other method computes something from them."""

    of: Param
    name: str

    def call(self, call: Call) -> Value:
        m = call.m
        if self.name.endswith("_") and not self.name.startswith("__"):
            moved(m, self.of, tuple(call.values()))
            return self.of
        if self.name in ("detach", "clone", "to", "cpu", "cuda", "float"):
            made = mix(m, self.of.text, self.of, *call.values())
            return made if self.name != "detach" else made.without_history()
        if self.name in ("register_hook", "register_post_accumulate_grad_hook"):
            if self.name == "register_hook":
                m.state(RunTape).hooked = True
            elif call.args:
                hooks = m.state(GradHooks).hooks
                if all(hook.key != call.args[0].key for hook in hooks):
                    hooks.append(call.args[0])
            return m.unknown("handle")
        return mix(m, self.of.text, self.of, *call.values())


@dataclass(frozen=True, slots=True, eq=False)
class ParamData(Value):
    """p.data: the same numbers without history."""

    of: Param

    @property
    def text(self) -> str:
        return f"{self.of.text}.data"

    @property
    def fixed(self) -> bool:
        return False

    def sources(self) -> Provenance:
        return frozenset(Weights(leaf) for leaf in self.of.leaves)

    def absorbs(self) -> bool:
        return True

    def attribute(self, m: Machine, name: str) -> Value:
        if name.endswith("_") and not name.startswith("__"):
            return ParamMethod(self.of, name)
        return m.unknown(f"{self.text}.{name}", data=True, fixed=False)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        moved(m, self.of, (change,))
        return self

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        moved(m, self.of, (value,))

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        others = self.sources() | {
            source for source in other.sources() if isinstance(source, Weights)
        }
        if uses_gradient(other):
            others |= {GRADIENT}
        return Tensor(self.text, frozenset(), others)


@dataclass(frozen=True, slots=True, eq=False)
class Grad(Value):
    """p.grad: there, or None."""

    of: Param
    guarded: bool = False

    @property
    def key(self) -> Hashable:
        return ("grad", self.of.key)

    @property
    def text(self) -> str:
        return f"{self.of.text}.grad"

    @property
    def fixed(self) -> bool:
        return False

    def sources(self) -> Provenance:
        return frozenset((GRADIENT,))

    def absorbs(self) -> bool:
        return True

    def is_none(self, m: Machine) -> bool | Condition:
        """A program that asks is prepared for both."""
        m.state(Guards).ask(m, atoms(self.of.leaves))
        return False

    def truth(self, m: Machine) -> bool | Condition:
        return not self.is_none(m)

    def _guarded(self, m: Machine) -> bool:
        guards = m.state(Guards)
        return guards.asked_by_now(m) or all(leaf in guards.asked for leaf in atoms(self.of.leaves))

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "data":
            return self
        if name in ("zero_", "detach_", "requires_grad_"):
            return BuiltIn(name, lambda call: self._in_place(call, name))
        if name.endswith("_") and not name.startswith("__"):
            return BuiltIn(name, lambda call: self._in_place(call, name))
        if name in PLAIN_ATTRIBUTES:
            return m.unknown(f"{self.text}.{name}", fixed=False)
        return BuiltIn(name, lambda call: self._read(call))

    def _in_place(self, call: Call, name: str) -> Value:
        m, tape = call.m, call.m.state(RunTape)
        if name in ("detach_", "requires_grad_"):
            # Always followed by zero_(), and as careless about None.
            return self
        zero = call.argument(0, "value") if name == "fill_" else call.argument(0, "other")
        if name == "zero_" or (name in ("fill_", "mul_") and _is_zero(zero)):
            self._clear(m)
        else:
            adds = name in ("add_", "copy_", "sub_")
            tape.note(m, ev.Adjust, self.of.leaves, guarded=self._guarded(m), adds=adds)
            source = call.argument(0, "src")
            if name == "copy_" and source is not None and GRADIENT not in source.sources():
                tape.note(m, ev.Assign, self.of.leaves)
        return self

    def _clear(self, m: Machine) -> None:
        """It holds zeros from now on."""
        tape = m.state(RunTape)
        guarded = self._guarded(m)
        tape.note(
            m, ev.Zero, self.of.leaves, to_none=False, guarded=guarded, within=within_step(tape)
        )

    def _read(self, call: Call) -> Value:
        self.read(call.m)
        return Tensor(self.text, frozenset(), frozenset((GRADIENT,)))

    def read(self, m: Machine) -> None:
        m.state(RunTape).note(m, ev.Read, self.of.leaves)

    def is_kept(self, m: Machine, among: list[Value]) -> None:
        """`grads.append(p.grad)`: clearing p.grad leaves it there."""
        self.read(m)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        if sign == "*" and _is_zero(change):
            self._clear(m)
            return self
        tape = m.state(RunTape)
        adds = sign in "+-"
        tape.note(m, ev.Adjust, self.of.leaves, guarded=self._guarded(m), adds=adds)
        return self

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if isinstance(key, Slice) and key.takes_all and _is_zero(value):
            self._clear(m)
            return
        m.state(RunTape).note(m, ev.Adjust, self.of.leaves)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name == "data":
            set_grad(m, self.of, value)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        self.read(m)
        return Tensor(self.text, frozenset(), frozenset((GRADIENT,)))


class GradHooks:
    """What runs whenever gradients have been added: optimizers that step inside backward."""

    def __init__(self) -> None:
        self.hooks: list[Value] = []


class Guards:
    """Parameters whose gradient was asked about before it was used.

    Whoever asks of one of them in a round asks for all: `if w.grad is not None: b.grad.zero_()`.
    """

    def __init__(self) -> None:
        self.asked: set[Leaf] = set()
        self.moments: set[tuple[int, ...]] = set()

    def ask(self, m: Machine, leaves: Iterable[Leaf]) -> None:
        self.asked.update(leaves)
        self.moments.add(m.moment())

    def asked_by_now(self, m: Machine) -> bool:
        """In this round of a loop, or in the one around it."""
        now = m.moment()
        return any(now[: len(moment)] == moment for moment in self.moments)


def _is_zero(value: Value | None) -> bool:
    return isinstance(value, Constant) and value.value in (0, 0.0)


def _yielded(m: Machine, generator: Generator) -> list[Leaf]:
    """The parameters that a generator of the program gives."""
    found: dict[Leaf, None] = {}

    def take(element: Value) -> bool:
        found.update(dict.fromkeys(leaves_in(element.sources())))
        return False

    generator.for_each(m, take)
    return list(found)


def parameters_in(m: Machine, value: Value, use: str) -> tuple[list[Leaf], bool]:
    """The parameters that a value stands for, and whether that is all of them.

    Uses up one-shot iterators, as whoever is given them does.
    """
    found: dict[Leaf, None] = {}
    whole = True
    given = value.resolve(m)
    for part in flatten([given]):
        if part is not given and isinstance(part, Params) and part.one_shot:
            # PyTorch refuses a list of iterators: nothing is used up, since nothing runs.
            found.update(dict.fromkeys(part.leaves))
        elif isinstance(part, Params):
            found.update(dict.fromkeys(part.take(m, use)))
            whole = whole and part.whole
        elif isinstance(part, OneShot):
            if part.used:
                m.libraries.used_up(m, part, use)
                break
            part.used = True
        elif isinstance(part, Unknown):
            leaves = leaves_in(part.sources())
            found.update(dict.fromkeys(leaves))
            whole = False
        elif isinstance(part, Generator):
            # `yield p` for some of them: what it leaves out under a condition is not known.
            found.update(dict.fromkeys(_yielded(m, part)))
            whole = False
        elif isinstance(part, (Param, Tensor)) or not tuple(part.held()):
            found.update(dict.fromkeys(leaves_in(part.sources())))
    return list(found), whole
