"""Tensors, parameters and `.grad` as a program sees them, each made of the others.

A tensor's numbers are never known. What matters is which parameters a loss was computed from, what
it was multiplied by on the way, and whether it is a mean.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Slice
from gradkeeper.lint.interpreter.objects import BuiltIn, StandIn, flatten, visible
from gradkeeper.lint.interpreter.state import RaisedError
from gradkeeper.lint.interpreter.syntax import last_name
from gradkeeper.lint.interpreter.values import (
    NONE,
    NOTHING,
    Call,
    Condition,
    Constant,
    Provenance,
    Unknown,
    Value,
    negation,
)
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.factors import ONE, UNKNOWN_FACTOR, Factor, factor_by, heavier
from gradkeeper.lint.libraries.gradients import (
    GradHooks,
    Guards,
    add_gradients,
    is_refused,
    moved,
    retains,
    uses_gradient,
    weight_given,
    within_step,
)
from gradkeeper.lint.libraries.leaves import Leaf, Leaves, atoms, leaves_in
from gradkeeper.lint.libraries.provenance import (
    DISK,
    GRADIENT,
    OPEN,
    Differentiated,
    Modes,
    Pass,
    Weights,
)
from gradkeeper.lint.libraries.recording import Graph, RunTape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


GRAD = ("grad", "_grad")


class Tensor(StandIn):
    """A tensor: computed, or (with `leaf`) one that collects gradients itself."""

    __slots__ = (
        "autocast",
        "factor",
        "flow",
        "graphs",
        "leaf",
        "of_unseen",
        "others",
        "reduction",
        "scaler",
        "serial",
        "text",
    )
    text: str

    def __init__(
        self,
        text: str,
        flow: Leaves = frozenset(),
        others: Provenance = NOTHING,
        *,
        factor: Factor = ONE,
        reduction: ev.Reduction | None = None,
        scaler: str | None = None,
        autocast: str | None = None,
        leaf: Leaf | None = None,
        serial: int = 0,
    ) -> None:
        self.text = text
        self.flow = flow
        self.others = others
        self.factor = factor
        self.reduction = reduction
        self.scaler = scaler
        self.autocast = autocast
        self.leaf = leaf
        self.serial = serial
        self.of_unseen = False
        """A part of it is neither data nor known: parameters may hide in what it came from."""
        self.graphs: tuple[Graph, ...] = ()
        """Of the losses that it is the sum or the multiple of, once somebody has asked."""

    @property
    def key(self) -> Hashable:
        return ("tensor", self.serial or id(self))

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
            moved(m, [self.leaf], (change,))
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
            self.text,
            self.flow | (frozenset((self.leaf,)) if self.leaf else frozenset()),
            self.others,
            factor=changes.get("factor", self.factor),  # type: ignore[arg-type]
            reduction=changes.get("reduction", self.reduction),  # type: ignore[arg-type]
            scaler=self.scaler,
            autocast=self.autocast,
        )
        made.graphs = self.graphs_behind()
        made.of_unseen = self.of_unseen
        return made

    def graphs_behind(self) -> tuple[Graph, ...]:
        if not self.graphs and (self.flow or OPEN in self.others):
            self.graphs = (Graph(),)
        return self.graphs

    def without_history(self) -> Tensor:
        return Tensor(self.text, frozenset(), _without_graph(self.others))

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name == "requires_grad":
            if value.truth(m) is True:
                self.collect()
            elif self.leaf is not None:
                self.leaf.requires_grad = False
        elif name in GRAD and self.leaf is not None:
            set_grad(m, Param([self.leaf]), value)
        elif name == "data" and self.leaf is not None:
            moved(m, [self.leaf], (value,))
        else:
            StandIn.set_attribute(self, m, name, value)

    def delete_attribute(self, m: Machine, name: str) -> None:
        self.set_attribute(m, name, NONE)

    def collect(self) -> None:
        """From now on it collects gradients itself: an input, or weights by hand."""
        if self.leaf is None and not self.flow:
            self.leaf = Leaf(
                "tensor", seen=True, trainable=False, tensor=True, elsewhere=self.of_unseen
            )
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
            moved(m, [self.leaf], tuple(call.args))
            return self
        made = mix(m, self.text, self, *call.values())
        if name in KEEPS:
            made.factor, made.reduction = self.factor, self.reduction
            made.graphs = self.graphs_behind()
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
        if not (among and m.state(Modes).grad and self.graphs_behind()):
            return
        if isinstance(called, ast.Attribute):
            held: list[Graph] = []
            for value in among:
                if isinstance(value, Tensor):
                    held += value.graphs_behind()
            total = last_name(called.value), tuple(held[-MOST_GRAPHS:])
            m.state(RunTape).totals[m.site()] = total

    @visible
    def backward(self, call: Call) -> Value:
        by = weight_given(call, place=0, name="gradient")
        credit(call.m, self, divided_by=by, retains=retains(call, place=1))
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
    def key(self) -> Hashable:
        """Asked twice of one loss, it says the same."""
        return ("finite", self.name, self.of.key)

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
    sources = value.sources()
    leaves = leaves_in(sources)
    return Tensor(value.text, leaves, _others(sources, leaves), factor=factor)


def weigh_unknown(
    m: Machine, made: Unknown, of: Unknown, sign: str, by: Value, *, swapped: bool
) -> None:
    """`of * by` or `of / by`, both unknown: keeps the weight for the case that it is a loss."""
    weights = m.state(Modes).weights
    m.kept.append(made)
    weights[made.key] = weights.get(of.key, ONE).times(_factor_by(m, sign, by, swapped=swapped))


def _others(sources: Provenance, leaves: Leaves) -> Provenance:
    """What else is among them than these leaves: nearly always nothing, or all."""
    if not leaves:
        return sources
    return sources - leaves if len(leaves) < len(sources) else NOTHING


def mix(m: Machine, text: str, *values: Value) -> Tensor:
    """A tensor computed from these values, with gradients if they are on."""
    modes = m.state(Modes)
    flow: Leaves = frozenset()
    others: Provenance = NOTHING
    scaler = None
    of_unseen = False
    for part in flatten(values):
        if type(part) is Constant:
            continue
        if modes.grown and isinstance(part, (Unknown, Grad)):
            part = modes.grown.get(part.key) or part
        if isinstance(part, Tensor):
            scaler = scaler or part.scaler
            of_unseen = of_unseen or part.of_unseen
            leaves, rest = part.flow, part.others
            if part.leaf is not None:
                leaves |= {part.leaf}
        else:
            sources = part.sources()
            of_unseen = of_unseen or (type(part) is Unknown and not part.data)
            if modes.differentiated and part.key in modes.differentiated:
                sources |= {modes.differentiated[part.key]}
            leaves = leaves_in(sources)
            rest = _others(sources, leaves)
        flow = flow | leaves if flow and leaves else flow or leaves
        others = others | rest if others and rest else others or rest
    m.serial += 1
    made = Tensor(text[:200], frozenset(), others, serial=m.serial)
    made.of_unseen = of_unseen
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
    behind = second.graphs_behind() if second is not None else ()
    made.graphs = (*tensor.graphs_behind(), *behind)[-MOST_GRAPHS:]
    if second is None or not (second.flow or OPEN in second.others):
        made.reduction = tensor.reduction
        made.factor = tensor.factor.times(
            _factor_by(m, sign, other, swapped=swapped, terms=tensor.factor.terms)
        )
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
        made.factor = replace(heavier(tensor.factor, second.factor), terms=terms)
        # One part is a mean, of the other nothing is known: what is wrong with that part is. With
        # a sum in it, nobody meant a mean.
        summed = "sum" in (tensor.reduction, second.reduction)
        made.reduction = "sum" if summed else tensor.reduction or second.reduction
    else:
        made.factor = ONE
    return made


def _factor_by(m: Machine, sign: str, other: Value, *, swapped: bool, terms: int = 1) -> Factor:
    mask = isinstance(other, Tensor)
    return factor_by(m, sign, other, swapped=swapped, terms=terms, mask=mask)


MOST_GRAPHS = 8


def _grown(m: Machine, total: Tensor, loss: Tensor) -> Tensor:
    """`total += loss`: whoever looks at the total later holds all graphs that went into it."""
    made = combined(m, "+", total, loss)
    if m.state(Modes).grad and loss.graphs_behind() and isinstance(m.node, ast.AugAssign):
        m.state(RunTape).totals[m.site()] = (last_name(m.node.target), made.graphs)
    return made


def _may_be_loss(value: Value) -> bool:
    """Computed out of sight, from more than data."""
    return isinstance(value, Unknown) and not value.fixed and not value.data


def _has_history(value: Value) -> bool:
    return isinstance(value, Tensor) or bool(value.sources())


def credit(
    m: Machine,
    loss: Value,
    *,
    divided_by: Factor = ONE,
    scaler: str | None = None,
    retains: bool = False,
) -> None:
    """backward(): gradients are added to what the loss was computed from."""
    tensor = as_tensor(m, loss)
    tape = m.state(RunTape)
    if m.catching_errors and is_refused(tensor):
        m.must_be_sure()
        tape.note(m, ev.Fault, leaves_in(tensor.sources()), torn=True)
        raise RaisedError(m.unknown("an error", fixed=False), m.site())
    wanted = add_gradients(m, tensor, divided_by=divided_by, scaler=scaler, retains=retains)
    if isinstance(loss, Tensor):
        loss.others |= {Differentiated(tape.notes[-1])}
    else:
        m.state(Modes).differentiated[loss.key] = Differentiated(tape.notes[-1])
        m.kept.append(loss)
    for hook in m.state(GradHooks).hooks:
        hook.call(Call(m, [Param(wanted)]))
    if m.fault_due is not None:
        m.fault_due = None
        tape.note(m, ev.Fault, wanted, torn=True)
        raise RaisedError(m.unknown("an error", fixed=False), m.site())


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
            leaf.thawed = leaf.thawed or (answer and not leaf.requires_grad)
            leaf.requires_grad = answer
        return self

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name in GRAD:
            set_grad(m, self, value)
        elif name == "requires_grad":
            self._set_requires_grad(m, value)
        elif name == "data":
            moved(m, self.leaves, (value,))

    def delete_attribute(self, m: Machine, name: str) -> None:
        self.set_attribute(m, name, NONE)

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        moved(m, self.leaves, (change,))
        return self

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        moved(m, self.leaves, (value,))

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        return mix(m, self.text, self, other)

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        return Condition("in", element, self)


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
class ParamMethod(Value):
    """`p.add_(...)` moves weights; any other method computes something from them."""

    of: Param
    name: str

    def call(self, call: Call) -> Value:
        m = call.m
        if self.name.endswith("_") and not self.name.startswith("__"):
            moved(m, self.of.leaves, tuple(call.values()))
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

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        """`p.ds_tensor[:n] = ...`: what a framework keeps at a parameter may be its weights."""
        m.escape(value)
        if not isinstance(value, Constant):
            moved(m, self.of.leaves, ())


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
        moved(m, self.of.leaves, (change,))
        return self

    def item(self, m: Machine, key: Value) -> Value:
        """A view: what is done in place to a part is done to the weights."""
        return self

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        moved(m, self.of.leaves, (value,))

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
        leaves = set(atoms(self.of.leaves))
        m.state(Guards).ask(m, leaves)
        return m.state(RunTape).has_cleared(leaves)

    def truth(self, m: Machine) -> bool | Condition:
        return not self.is_none(m)

    def _guarded(self, m: Machine) -> bool:
        guards = m.state(Guards)
        return guards.asked_by_now(m) or all(leaf in guards.asked for leaf in atoms(self.of.leaves))

    def attribute(self, m: Machine, name: str) -> Value:
        grown = self._grown(m)
        if grown is not None:
            return grown.attribute(m, name)
        if name == "data":
            return self
        if name.endswith("_") and not name.startswith("__"):
            return BuiltIn(name, lambda call: self._in_place(call, name))
        if name in PLAIN_ATTRIBUTES:
            return m.unknown(f"{self.text}.{name}", fixed=False)
        return BuiltIn(name, lambda call: self._read(call))

    def _grown(self, m: Machine) -> Tensor | None:
        """What it was made into in place: an input of the next round, that collects gradients."""
        return m.state(Modes).grown.get(self.key)

    def _in_place(self, call: Call, name: str) -> Value:
        m, tape = call.m, call.m.state(RunTape)
        if name == "requires_grad_" and not call.values():
            made = m.state(Modes).grown[self.key] = Tensor(self.text)
            made.collect()
            return made
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

    def item(self, m: Machine, key: Value) -> Value:
        self.read(m)
        return Tensor(self.text, frozenset(), frozenset((GRADIENT,)))

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if isinstance(key, Slice) and key.takes_all and _is_zero(value):
            self._clear(m)
            return
        m.state(RunTape).note(m, ev.Adjust, self.of.leaves)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if name == "data":
            set_grad(m, self.of, value)

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        grown = self._grown(m)
        if grown is not None:
            return grown.operate(m, sign, other, swapped=swapped)
        self.read(m)
        return Tensor(self.text, frozenset(), frozenset((GRADIENT,)))


def _is_zero(value: Value | None) -> bool:
    return isinstance(value, Constant) and value.value in (0, 0.0)
