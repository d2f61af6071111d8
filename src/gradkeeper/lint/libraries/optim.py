"""torch.optim: optimizers, their parameter groups, and schedulers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, List
from gradkeeper.lint.interpreter.expressions import OneShot
from gradkeeper.lint.interpreter.objects import BuiltIn, Function, Labelled, StandIn, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Provenance, Times, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.nn import StateDict, zero
from gradkeeper.lint.libraries.parameters import Params, parameters_in
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

STATELESS = words("LBFGS SGD ASGD")
METRIC = words("ReduceLROnPlateau")


class Frameworks:
    """What holds for optimizers that were not seen being built, nor being handed to a framework."""

    def __init__(self) -> None:
        self.frozen_while: Callable[[Machine], bool] | None = None


class ParamGroups(List):
    """An optimizer's param_groups: whoever hands them on may be taken for the optimizer."""

    __slots__ = ("of",)

    def __init__(self, of: Optimizer) -> None:
        List.__init__(self, list(of.param_groups()), open=not of.owner.known)
        self.of = of


class Optimizer(StandIn):
    """An optimizer. Its parameters are known, or settled when the run has ended."""

    __slots__ = (
        "after",
        "before",
        "evaluates_again",
        "exactly",
        "groups",
        "kind",
        "named_by",
        "owner",
    )

    def __init__(self, owner: RecordedOwner, kind: str = "") -> None:
        self.owner = owner
        self.kind = kind
        self.exactly = False
        """It is an object of PyTorch's class of that name, and of none that derives from it."""
        self.groups: list[Dict] = []
        self.before: list[Value] = []
        self.after: list[Value] = []
        self.named_by = False
        self.evaluates_again = False
        """A step is known to call its closure more than once."""

    @property
    def key(self) -> Hashable:
        return ("optimizer", id(self.owner))

    @property
    def text(self) -> str:
        return self.owner.name

    def recurs(self) -> bool:
        return False  # the next one has other parameters, and its own step

    def named(self, m: Machine, name: str) -> None:
        if not self.named_by:
            self.named_by = True
            self.owner.name = name

    def sources(self) -> Provenance:
        return frozenset(self.owner.leaves)

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "param_groups":
            return ParamGroups(self)
        if name in ("state", "defaults"):
            return m.unknown(f"{self.text}.{name}")
        if name in ("optimizer", "_optimizer", "optim", "base_optimizer"):
            return self
        if name == "__init__":
            return BuiltIn(name, self._begin)
        if name in ("train", "eval"):
            return BuiltIn(name, lambda call: NONE)
        return StandIn.attribute(self, m, name)

    def param_groups(self) -> list[Dict]:
        if not self.groups:
            params = Params(tuple(self.owner.leaves), f"{self.text}.param_groups", one_shot=False)
            self.groups.append(Dict.of([(Constant("params"), params)]))
            self.groups[0].open = True
        return self.groups

    def idle(self, m: Machine) -> bool:
        frozen = self.owner.frozen_while
        if frozen is None and not self.owner.known:
            frozen = m.state(Frameworks).frozen_while
        return frozen is not None and frozen(m)

    def around(self, m: Machine, name: str, method: Value) -> Value:
        if name == "step":
            return BuiltIn(name, lambda call: own_step(self, method, call))
        if name != "zero_grad" and _looks_at_gradients(method):
            return BuiltIn(name, lambda call: _own_reading(self, method, call))
        return method

    # -- building

    def take(self, m: Machine, value: Value, use: str) -> None:
        """Parameters, or groups of them, become its own."""
        tape = m.state(RunTape)
        value = value.resolve(m)
        given = value.values if isinstance(value, List) else [value]
        if any(isinstance(element.resolve(m), Dict) for element in given):
            groups = [self._take_group(m, element.resolve(m), use) for element in given]
            self._adopt(m, tape, [leaf for leaves in groups for leaf in leaves])
            if (isinstance(value, List) and value.open) or not any(groups):
                self.owner.known = False
        else:
            before = len(tape.notes)
            leaves, whole = parameters_in(m, value, use)
            self.owner.whole = self.owner.whole and whole
            self.owner.escaped = any(note.kind is ev.Exhaust for note in tape.notes[before:])
            self._adopt(m, tape, leaves)
            if not leaves and not self.owner.escaped:
                # PyTorch refuses an empty list: there are some, and they were not seen.
                self.owner.known = False

    def _begin(self, call: Call) -> Value:
        """super().__init__(params, defaults) of a class of the program."""
        given = call.argument(0, "params")
        if given is not None:
            foreseen = bool(self.owner.leaves)
            # What the class hands on tells more than what it was given: it may be a network.
            self.owner.known = True
            self.take(call.m, given, self.text)
            self.owner.known = self.owner.known or foreseen
        return NONE

    def foresee(self, m: Machine, value: Value) -> None:
        """A class of the program will hand these on in its own time: nothing is used up yet."""
        value = value.resolve(m)
        leaves = list(leaves_in(value.sources()))
        self.owner.whole = False
        if leaves:
            self._adopt(m, m.state(RunTape), sorted(leaves, key=lambda leaf: leaf.name))
        elif isinstance(value, (Params, OneShot)):
            self.owner.known = False
        else:
            self.take(m, value, "params")

    def _take_group(self, m: Machine, group: Value, use: str) -> list[Leaf]:
        """The parameters of a group, which is kept."""
        params = group.look("params") if isinstance(group, Dict) else None
        if params is None:
            self.owner.known = False
            return []
        leaves, whole = parameters_in(m, params, use)
        self.owner.whole = self.owner.whole and whole
        if not leaves and not whole:
            self.owner.known = False
        if isinstance(group, Dict) and leaves:
            kept = Params(tuple(leaves), "a group's parameters", one_shot=False)
            made = Dict(dict(group.values), True)
            made.values[("constant", "str", "params")] = (Constant("params"), kept)
            self.groups.append(made)
        return leaves

    def _adopt(self, m: Machine, tape: RunTape, leaves: list[Leaf]) -> None:
        new = [leaf for leaf in leaves if leaf not in self.owner.leaves]
        self.owner.leaves.update(dict.fromkeys(new))
        for leaf in atoms(new):
            # Whatever an optimizer is given is meant to train.
            leaf.trainable = leaf.trainable or not leaf.tensor
        last = tape.notes[-1] if tape.notes else None
        if new and last is not None and last.kind is ev.Adopt and last.owner is self.owner:
            last.targets += tuple(new)  # built in one go: add_param_group() right after
        elif new:
            tape.note(m, ev.Adopt, new, owner=self.owner)

    # -- what a program calls

    @visible
    def step(self, call: Call) -> Value:
        take_step(call.m, self, call.argument(0, "closure"))
        return call.m.unknown("loss", data=True, fixed=False)

    @visible
    def zero_grad(self, call: Call) -> Value:
        m = call.m
        if not self.idle(m):
            if self.owner.known:
                zero(m, tuple(self.owner.leaves), call.argument(0, "set_to_none"))
            else:
                zero(m, (self.owner,), call.argument(0, "set_to_none"))  # type: ignore[arg-type]
        return NONE

    @visible
    def add_param_group(self, call: Call) -> Value:
        group = call.argument(0, "param_group")
        if group is not None:
            m = call.m
            leaves = self._take_group(m, group.resolve(m), "add_param_group")
            self._adopt(m, m.state(RunTape), leaves)
        return NONE

    @visible
    def state_dict(self, call: Call) -> Value:
        return StateDict((), (self.owner,))

    @visible
    def load_state_dict(self, call: Call) -> Value:
        call.m.state(RunTape).note(call.m, ev.Restore, optimizers=(self.owner,))
        return NONE

    @visible
    def register_step_pre_hook(self, call: Call) -> Value:
        self.before.extend(call.args[:1])
        return call.m.unknown("handle")

    @visible
    def register_step_post_hook(self, call: Call) -> Value:
        self.after.extend(call.args[:1])
        return call.m.unknown("handle")


def take_step(
    m: Machine, optimizer: Optimizer, closure: Value | None, *, scaler: str | None = None
) -> None:
    """step(): hooks, a closure if there is one, then the weights move."""
    if optimizer.idle(m):
        return
    tape = m.state(RunTape)
    for hook in optimizer.before:
        hook.call(Call(m, [optimizer, NONE, NONE]))
    if closure is not None and not (isinstance(closure, Constant) and closure.value is None):
        _evaluate(m, optimizer, closure)
    tape.steps += 1
    tape.spent()
    tape.note(m, ev.Step, owner=optimizer.owner, scaler=scaler)
    for hook in optimizer.after:
        hook.call(Call(m, [optimizer, NONE, NONE]))


def own_step(optimizer: Optimizer, method: Value, call: Call) -> Value:
    """A step that the program's own class takes: what moves inside it is one step."""
    m = call.m
    tape = m.state(RunTape)
    start = len(tape.notes)
    result = method.call(call)
    inside = tape.notes[start:]
    if any(note.kind is ev.Step for note in inside):
        return result
    moves = any(note.kind is ev.Move for note in inside)
    followed = any(note.kind is not ev.Read for note in inside)
    if moves or (not followed and _does_something(method)):
        tape.notes[start:] = [
            note for note in inside if note.kind not in (ev.Move, ev.Read, ev.Adjust)
        ]
        take_step(m, optimizer, None)
    return result


def _own_reading(optimizer: Optimizer, method: Value, call: Call) -> Value:
    """Another method of such a class takes what it needs of the gradients: `step_kd()`."""
    result = method.call(call)
    call.m.state(RunTape).note(call.m, ev.Read, (optimizer.owner,))
    return result


def _looks_at_gradients(method: Value) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == "grad" for part in _parts_of(method)
    )


def _does_something(method: Value) -> bool:
    """A step that goes over something takes one, though how it moves weights is not followed."""
    return any(isinstance(part, (ast.For, ast.While)) for part in _parts_of(method))


def _parts_of(method: Value) -> Iterator[ast.AST]:
    inner: object = method
    while inner is not None and not isinstance(inner, Function):
        inner = getattr(inner, "function", None)
    if inner is not None:
        yield from ast.walk(inner.code)


def _evaluate(m: Machine, optimizer: Optimizer, closure: Value) -> None:
    """Runs a closure: LBFGS a second time, after the weights have moved."""
    tape = m.state(RunTape)
    outer, tape.within = tape.within, optimizer.owner
    start = len(tape.notes)
    closure.call(Call(m))
    inside = tape.notes[start:]
    reached = {
        id(leaf)
        for note in inside
        if note.kind is ev.Backward
        for leaf in atoms(target for target in note.targets if isinstance(target, Leaf))
    }
    moves = any(id(leaf) in reached for leaf in atoms(optimizer.owner.leaves))
    seen = optimizer.owner.known and not any(note.kind is ev.Escape for note in inside)
    if optimizer.evaluates_again and moves and seen:
        tape.note(m, ev.Move, tuple(optimizer.owner.leaves))
        closure.call(Call(m))
    tape.within = outer


def build(call: Call, kind: str) -> Value:
    """Adam(params, ...)."""
    m = call.m
    owner = RecordedOwner(kind.lower() or "optimizer", m.site())
    owner.stateful = kind not in STATELESS or _has_momentum(call)
    made = Optimizer(owner, kind)
    if kind == "LBFGS":
        owner.stateful = False
        made.evaluates_again = _iterates(call)
    m.must_be_sure()
    m.state(RunTape).owners.append(owner)
    given = call.argument(0, "params")
    if given is None:
        owner.known = False
    else:
        made.take(m, given, kind)
    return made


def build_of_torch(call: Call, kind: str) -> Value:
    made = build(call, kind)
    if isinstance(made, Optimizer):
        made.exactly = True
    return made


def _iterates(call: Call) -> bool:
    """LBFGS is known to take several iterations within a step, as it does by default."""
    given = call.argument(2, "max_iter")
    if given is None:
        return True
    number = given.resolve(call.m)
    return isinstance(number, Constant) and isinstance(number.value, int) and number.value > 1


def _has_momentum(call: Call) -> bool:
    momentum = call.argument(2, "momentum")
    if momentum is None:
        return False
    return not (isinstance(momentum, Constant) and not momentum.value)


def stranger(m: Machine, name: str) -> Optimizer:
    """An optimizer that was not seen being built."""
    tape = m.state(RunTape)
    m.must_be_sure()
    owner = RecordedOwner(name, m.site(), known=False)
    tape.owners.append(owner)
    made = Optimizer(owner)
    made.named_by = True
    return made


class Scheduler(Labelled):
    """A learning rate schedule."""

    __slots__ = ("factors", "frozen_while", "metric", "of", "seen")

    def __init__(
        self, of: Value, *, metric: bool = False, seen: bool = True, made_by: Call | None = None
    ) -> None:
        self.of = of
        given = made_by.values() if made_by is not None else ()
        self.factors = [
            source.of for x in given for source in x.sources() if isinstance(source, Times)
        ]
        """What its length was multiplied by."""
        self.metric = metric
        self.seen = seen
        """It is one of PyTorch's. Others may take their first tick for the first step's rate."""
        self.label = "scheduler"
        self.frozen_while: Callable[[Machine], bool] | None = None
        """A framework's word on whether ticks do nothing now. Its optimizer's word is not asked:
        a schedule that no framework knows of moves on whenever it is told to."""

    def named(self, m: Machine, name: str) -> None:
        if self.label == "scheduler":
            self.label = name

    @visible
    def step(self, call: Call) -> Value:
        m = call.m
        of = m.libraries.optimizer_in(m, self.of)
        early = not self.seen and not m.state(RunTape).steps
        frozen = self.frozen_while is not None and self.frozen_while(m)
        if isinstance(of, Optimizer) and not frozen and not early:
            # One whose length was multiplied by the window's is meant to move on with each batch.
            by_batch = any(m.numbers.get(factor, 1) > 1 for factor in self.factors)
            fed = by_batch or bool(call.values())
            m.state(RunTape).note(
                m, ev.Tick, owner=of.owner, scheduler=self.label, metric=self.metric or fed
            )
        return NONE

    @visible
    def state_dict(self, call: Call) -> Value:
        return StateDict()

    @visible
    def load_state_dict(self, call: Call) -> Value:
        return NONE

    @visible
    def get_last_lr(self, call: Call) -> Value:
        return call.m.unknown("lr")


def schedule(call: Call, kind: str) -> Value:
    of = call.argument(0, "optimizer") or NONE
    if kind in ("SequentialLR", "ChainedScheduler"):
        of = _first_schedule(call)
    # Whatever is handed to one of PyTorch's is an optimizer, also where nothing else shows it.
    call.m.libraries.optimizer_in(call.m, of)
    return Scheduler(of, metric=kind in METRIC, made_by=call)


def _first_schedule(call: Call) -> Value:
    for value in call.values():
        for part in (value, *value.held()):
            if optimizer_of(part) is not None:
                return part
            if isinstance(part, Scheduler):
                return part.of
    return NONE


def optimizer_of(value: Value) -> Optimizer | None:
    if isinstance(value, Optimizer):
        return value
    native = getattr(value, "native", None)
    return native if isinstance(native, Optimizer) else None
