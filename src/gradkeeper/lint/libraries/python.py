"""Python's own functions and modules, as far as programs that train use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Collection, Dict, List, Range, Set, Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Class,
    Enumerated,
    Function,
    Generator,
    Instance,
    Iterated,
    LibraryClass,
    Partial,
    StandIn,
    Super,
    Zipped,
    as_list,
)
from gradkeeper.lint.interpreter.state import ProgramEndsError
from gradkeeper.lint.interpreter.values import (
    FALSE,
    NONE,
    TRUE,
    Body,
    Call,
    Condition,
    Constant,
    Count,
    Provenance,
    Unknown,
    Value,
    truth_value,
)
from gradkeeper.lint.libraries import unknowns
from gradkeeper.lint.libraries.data import Opened, StatefulLoader
from gradkeeper.lint.libraries.leaves import words
from gradkeeper.lint.libraries.nn import Module, module_of
from gradkeeper.lint.libraries.optim import Optimizer, Scheduler
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.tensors import Param, Tensor, mix

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

Work = Callable[[Call], Value]

CONTAINERS = words("dict list tuple set str int float bool Mapping Sequence")
"""What no optimizer, schedule or network is an instance of."""


class OpenRange(Value):
    """range(n) of an n that is not known, or range(start, start + n)."""

    __slots__ = ("number", "start")

    def __init__(self, number: Value, start: int = 0) -> None:
        self.number = number
        self.start = start

    @property
    def text(self) -> str:
        return f"range({self.number.text})"

    def iterate(self, m: Machine) -> Iterator[Value]:
        place = self.start
        while True:
            yield m.round_number(place, self)
            place += 1

    def asked_number(self) -> Value | None:
        return self.number

    def length(self, m: Machine) -> Value:
        return self.number


def _range(call: Call) -> Value:
    m = call.m
    args = [argument.resolve(m) for argument in call.args]
    numbers: list[int] = []
    limit: float | None = None
    for argument in args:
        number = m.known_number(argument)
        if number is None or not float(number).is_integer():
            bound = args[0] if len(args) == 1 else args[1]
            start = int((m.known_number(args[0]) if len(args) > 1 else 0) or 0)
            return OpenRange(m.less(bound, start) if start else bound, start)
        numbers.append(int(number))
        if isinstance(argument, Count):
            limit = argument.limit
    if not numbers:
        return m.unknown("range()")
    start, stop = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) > 2 else 1
    return Range(start, stop, step or 1, limit)


def _len(call: Call) -> Value:
    return call.args[0].resolve(call.m).length(call.m) if call.args else Constant(0)


def _enumerate(call: Call) -> Value:
    start = call.argument(1, "start") or Constant(0)
    given = (call.argument(0) or NONE).resolve(call.m)
    return Enumerated(Opened(given) if isinstance(given, StatefulLoader) else given, start)


def _zip(call: Call) -> Value:
    return Zipped(tuple(argument.resolve(call.m) for argument in call.args))


def _iter(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, (Generator, Iterated, Params)):
        return given
    if isinstance(given, Instance):
        made = given.cls.member("__iter__")
        if isinstance(made, Function):
            return call.m.run_function(made, Call(call.m, [given]))
        if given.cls.member("__next__") is not None:
            return given
    return Opened(given) if isinstance(given, StatefulLoader) else Iterated(given)


def _next(call: Call) -> Value:
    return call.m.next_of(call.argument(0) or NONE, call.argument(1, "default"))


def _list(call: Call) -> Value:
    given = (call.argument(0) or Tuple([])).resolve(call.m)
    if isinstance(given, Params):
        leaves = given.take(call.m, "list()")
        return Params(leaves, given.label, given.with_names, one_shot=False, whole=given.whole)
    return as_list(call.m, given)


def _tuple(call: Call) -> Value:
    made = _list(call)
    return Tuple(made.values) if isinstance(made, List) and not made.open else made


def _set(call: Call) -> Value:
    made = _list(call)
    return Set(made.values) if isinstance(made, List) else made


def _dict(call: Call) -> Value:
    made = Dict()
    for argument in call.args:
        given = argument.resolve(call.m)
        if isinstance(given, Dict):
            made.overlay(call.m, given)
        else:
            for pair in as_list(call.m, given).values:
                parts = list(pair.held())
                if len(parts) == 2:
                    made.set_item(call.m, parts[0], parts[1])
                else:
                    made.open = True
    for name, value in call.kwargs.items():
        made.set_item(call.m, Constant(name), value)
    made.open = made.open or call.open
    return made


def content(base: Value, instance: Instance, call: Call) -> Value | None:
    """What an object holds whose class derives from `dict` or `list`."""
    if not isinstance(base, BuiltIn) or base.work not in (_dict, _list):
        return None
    fills_itself = isinstance(instance.cls.member("__init__"), Function)
    made = base.work(Call(call.m, []) if fills_itself else call)
    return made if isinstance(made, Dict | List) else None


def _number(kind: Callable[..., int | float | str]) -> Work:
    def work(call: Call) -> Value:
        given = (call.argument(0) or Constant(0)).resolve(call.m)
        if isinstance(given, Constant):
            try:
                made = kind(given.value)
            except (TypeError, ValueError, OverflowError):
                return call.m.unknown(f"{kind.__name__}({given.text})")
            return (
                Count(made, given.limit)
                if isinstance(given, Count) and kind is not str
                else Constant(made)
            )
        if kind is int and isinstance(given, Unknown) and given.fixed:
            return given
        if isinstance(given, Tensor):
            return call.m.unknown(f"{kind.__name__}({given.text})", data=True, fixed=False)
        return call.m.unknown(f"{kind.__name__}({given.text})", given)

    return work


def _bool(call: Call) -> Value:
    return truth_value((call.argument(0) or FALSE).truth(call.m))


def _extreme(sign: str) -> Work:
    def work(call: Call) -> Value:
        values = call.args
        if len(values) == 1:
            values = as_list(call.m, values[0].resolve(call.m)).values
        numbers = [value for value in values if isinstance(value, Constant)]
        if values and len(numbers) == len(values):
            try:
                chosen = (max if sign == "max" else min)(numbers, key=lambda number: number.value)  # type: ignore[arg-type,return-value]
            except TypeError:
                return call.m.unknown(f"{sign}()", *values)
            return chosen
        unknown = [value for value in values if isinstance(value, Unknown) and value.fixed]
        if len(unknown) == 1 and len(numbers) == len(values) - 1 == 1:
            # max(1, n): the number itself, guarded.
            return unknown[0]
        return call.m.unknown(f"{sign}()", *values)

    return work


def _sum(call: Call) -> Value:
    m = call.m
    given = (call.argument(0) or Tuple([])).resolve(m)
    start = call.argument(1, "start")
    if isinstance(given, Collection):
        total: Value | None = start
        for element in given.elements():
            total = element if total is None else m.combine("+", total, element)
        if total is not None:
            return total
        return Constant(0)
    return mix(m, "sum()", given) if given.sources() else m.unknown("sum()", given)


def _isinstance(call: Call) -> Value:
    m = call.m
    value = (call.argument(0) or NONE).resolve(m)
    kinds = (call.argument(1) or NONE).resolve(m)
    options = list(kinds.held()) or [kinds]
    names = {option.text.rpartition(".")[2] for option in options}
    if isinstance(value, Instance):
        chain = {cls.name for cls in value.cls.ancestors()}
        chain |= {library.text.rpartition(".")[2] for library in value.cls.libraries()}
        if any(isinstance(option, Class) and option in value.cls.ancestors() for option in options):
            return TRUE
        return TRUE if names & chain else FALSE
    plain = {Dict: "dict", List: "list", Tuple: "tuple", Set: "set"}
    for kind, name in plain.items():
        if isinstance(value, kind):
            return TRUE if name in names or names & {"Mapping", "Sequence"} else FALSE
    if isinstance(value, Constant) and not isinstance(value, Count):
        return TRUE if type(value.value).__name__ in names else FALSE
    if isinstance(value, (Tensor, Param)) and names & {"Tensor", "Parameter"}:
        return TRUE
    if module_of(value) is not None and "Module" in names:
        return TRUE
    built = isinstance(value, (Optimizer, Scheduler)) or (isinstance(value, Module) and value.seen)
    if built and names <= CONTAINERS:
        return FALSE
    return truth_value(Condition("isinstance", value, kinds))


def _hasattr(call: Call) -> Value:
    value, name = (call.argument(0) or NONE).resolve(call.m), call.argument(1) or NONE
    if isinstance(value, Instance) and isinstance(name, Constant) and value.native is None:
        known = str(name.value) in value.attributes or value.cls.member(str(name.value)) is not None
        return TRUE if known else FALSE
    return truth_value(Condition("hasattr", value, name))


def _getattr(call: Call) -> Value:
    value, name = (call.argument(0) or NONE).resolve(call.m), call.argument(1) or NONE
    default = call.argument(2)
    name = name.resolve(call.m)
    if not isinstance(name, Constant):
        return call.m.unknown(f"getattr({value.text}, {name.text})", value, name, part=True)
    word = str(name.value)
    if default is not None and isinstance(value, Instance):
        if word not in value.attributes and value.cls.member(word) is None:
            return default if value.native is None else value.attribute(call.m, word)
    return value.attribute(call.m, word)


def _setattr(call: Call) -> Value:
    value, name = (call.argument(0) or NONE).resolve(call.m), call.argument(1) or NONE
    given = call.argument(2) or NONE
    if isinstance(name, Constant):
        given.named(call.m, str(name.value))
        value.set_attribute(call.m, str(name.value), given)
    return NONE


def _delattr(call: Call) -> Value:
    value, name = (call.argument(0) or NONE).resolve(call.m), call.argument(1) or NONE
    if isinstance(name, Constant):
        value.delete_attribute(call.m, str(name.value))
    return NONE


def _super(call: Call) -> Value:
    frame = call.m.frame
    home, of = frame.home, frame.receiver
    if len(call.args) >= 2:
        of = call.args[1]
        home = call.args[0] if isinstance(call.args[0], Class) else home
    if home is None or of is None:
        return call.m.unknown("super()")
    return Super(of, home)


def _nothing(call: Call) -> Value:
    return NONE


def _exit(call: Call) -> Value:
    raise ProgramEndsError


def _filter(call: Call) -> Value:
    m = call.m
    test, given = call.argument(0) or NONE, (call.argument(1) or NONE).resolve(m)
    if isinstance(given, Params):
        return _filtered(m, test, given)
    kept: list[Value] = []
    for element in as_list(m, given).values:
        answer = (element if test.is_none(m) is True else test.call(Call(m, [element]))).truth(m)
        if answer is not False:
            kept.append(element)
    return List(kept, given.endless())


def _filtered(m: Machine, test: Value, given: Params) -> Value:
    """filter() over parameters: those that pass, in an iterator of their own."""
    kept: list[Param] = []
    whole = True

    def take(element: Value) -> bool:
        nonlocal whole
        answer = test.call(Call(m, [element])).truth(m)
        if isinstance(answer, Condition):
            whole = False
        parts = [element] if isinstance(element, Param) else list(element.held())
        if answer is not False:
            kept.extend(part for part in parts if isinstance(part, Param))
        return False

    given.for_each(m, take)
    leaves = tuple(leaf for trace in kept for leaf in trace.leaves)
    return Params(leaves, "filter()", given.with_names, whole=whole)


def _map(call: Call) -> Value:
    m = call.m
    work, given = call.argument(0) or NONE, (call.argument(1) or NONE).resolve(m)
    return List(
        [work.call(Call(m, [element])) for element in as_list(m, given).values], given.endless()
    )


def _any(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, Collection) and not getattr(given, "open", False):
        answers = [element.truth(call.m) for element in given.elements()]
        if True in answers:
            return TRUE
        if all(answer is False for answer in answers):
            return FALSE
    return truth_value(Condition("any", given))


def _all(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, Collection) and not getattr(given, "open", False):
        answers = [element.truth(call.m) for element in given.elements()]
        if False in answers:
            return FALSE
        if all(answer is True for answer in answers):
            return TRUE
    return truth_value(Condition("all", given))


def _same_elements(call: Call) -> Value:
    """sorted(), reversed(): the same elements; the order seldom matters here."""
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, (Collection, Range)):
        return as_list(call.m, given)
    return given


def _print(call: Call) -> Value:
    return NONE


def _round(call: Call) -> Value:
    given = call.argument(0) or Constant(0)
    if (
        isinstance(given, Constant)
        and isinstance(given.value, (int, float))
        and len(call.args) == 1
    ):
        return given.like(round(given.value)) if abs(given.value) < 1e15 else given
    return call.m.unknown("round()", given)


def _abs(call: Call) -> Value:
    given = call.argument(0) or Constant(0)
    if isinstance(given, Constant) and isinstance(given.value, (int, float)):
        return given.like(abs(given.value))
    return mix(call.m, "abs", given) if given.absorbs() else call.m.unknown("abs()", given)


def _type(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    return given.cls if isinstance(given, Instance) else call.m.unknown("type()", given)


def _vars(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    return given.attribute(call.m, "__dict__")


def _id(call: Call) -> Value:
    """A number for an object, of which nothing is done."""
    given = call.argument(0) or NONE
    return Unknown(("id", given.key), f"id({given.text})", fixed=given.fixed)


def _callable(call: Call) -> Value:
    return truth_value(Condition("callable", call.argument(0) or NONE))


def _partial(call: Call) -> Value:
    if not call.args:
        return call.m.unknown("partial()")
    return Partial(call.args[0], tuple(call.args[1:]), dict(call.kwargs))


def _chain(call: Call) -> Value:
    parts = [argument.resolve(call.m) for argument in call.args]
    if any(isinstance(part, Params) for part in parts):
        leaves = [
            leaf
            for part in parts
            if isinstance(part, Params)
            for leaf in part.take(call.m, "chain()")
        ]
        named = any(isinstance(part, Params) and part.with_names for part in parts)
        return Params(tuple(leaves), "chain()", named)
    return Chained(tuple(parts))


def _chain_all(call: Call) -> Value:
    parts = as_list(call.m, (call.argument(0) or NONE).resolve(call.m)).values
    return _chain(Call(call.m, parts))


class Chained(Value):
    """itertools.chain(): one after the other."""

    __slots__ = ("of",)

    def __init__(self, of: tuple[Value, ...]) -> None:
        self.of = of

    @property
    def text(self) -> str:
        return "chain()"

    def sources(self) -> Provenance:
        found: Provenance = frozenset()
        for iterable in self.of:
            found |= iterable.sources()
        return found

    def for_each(self, m: Machine, body: Body) -> None:
        ended = False
        count = 0

        def each(element: Value) -> bool:
            nonlocal ended, count
            count += 1
            ended = body(element)
            return ended or (iterable.endless() and count >= m.plan.rounds)

        for iterable in self.of:
            count = 0
            iterable.for_each(m, each)
            if ended:
                return

    def iterate(self, m: Machine) -> Iterator[Value]:
        for iterable in self.of:
            for place, element in enumerate(iterable.iterate(m)):
                if iterable.endless() and place >= m.plan.rounds:
                    break
                yield element

    def endless(self) -> bool:
        return all(iterable.endless() for iterable in self.of)


class Sliced(Value):
    """itertools.islice(): no more than so many."""

    __slots__ = ("most", "of")

    def __init__(self, of: Value, most: int) -> None:
        self.of = of
        self.most = most

    @property
    def text(self) -> str:
        return self.of.text

    def for_each(self, m: Machine, body: Body) -> None:
        if isinstance(self.of, Iterated):
            # What is taken is gone: the next slice begins where this one ends.
            for element in self.iterate(m):
                if body(element):
                    return
            return
        count = 0

        def some(element: Value) -> bool:
            nonlocal count
            count += 1
            return count > self.most or body(element) or count == self.most

        self.of.for_each(m, some)

    def iterate(self, m: Machine) -> Iterator[Value]:
        return itertools.islice(self.of.iterate(m), self.most)

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        known = self.of.length(m)
        if isinstance(known, Constant) and isinstance(known.value, int):
            if not isinstance(known, Count):
                return Constant(min(self.most, known.value))
        return Constant(self.most)


def _islice(call: Call) -> Value:
    of = (call.argument(0) or NONE).resolve(call.m)
    stop = call.argument(2) or call.argument(1) or NONE
    if isinstance(stop, Constant) and isinstance(stop.value, int):
        if isinstance(of, (Iterated, Generator)):
            call.m.takes_at_once(stop.value)
        return Sliced(of, stop.value)
    return OpenSlice(of, stop)


class OpenSlice(Sliced):
    """The same, of a number that is not known."""

    __slots__ = ("number",)

    def __init__(self, of: Value, number: Value) -> None:
        super().__init__(of, 1 << 30)
        self.number = number

    def endless(self) -> bool:
        return True

    def asked_number(self) -> Value | None:
        return self.number

    def length(self, m: Machine) -> Value:
        return self.number


class Cycled(Value):
    """itertools.cycle(): without end."""

    __slots__ = ("of",)

    def __init__(self, of: Value) -> None:
        self.of = of

    @property
    def text(self) -> str:
        return self.of.text

    def iterate(self, m: Machine) -> Iterator[Value]:
        kept: list[Value] = []
        if isinstance(self.of, OpenRange):
            m.doubt("how long a cycle is cannot be told")
        for element in self.of.iterate(m):
            kept.append(element)
            yield element
        while kept:
            yield from kept


def _cycle(call: Call) -> Value:
    return Cycled((call.argument(0) or NONE).resolve(call.m))


def _count(call: Call) -> Value:
    start = call.argument(0, "start")
    begin = start.value if isinstance(start, Constant) and isinstance(start.value, int) else 0
    return OpenRange(NONE, begin)


def _repeat(call: Call) -> Value:
    return Cycled(List([call.argument(0) or NONE]))


def _first(call: Call) -> Value:
    return (call.argument(0) or NONE).resolve(call.m) if call.args else NONE


def _progress(call: Call) -> Value:
    """tqdm(iterable): the same elements."""
    given = call.argument(0, "iterable")
    return Progress(given.resolve(call.m) if given is not None else NONE)


class Progress(StandIn):
    __slots__ = ("of",)

    def __init__(self, of: Value) -> None:
        self.of = of

    @property
    def text(self) -> str:
        return self.of.text

    def sources(self) -> Provenance:
        return self.of.sources()

    def for_each(self, m: Machine, body: Body) -> None:
        self.of.for_each(m, body)

    def iterate(self, m: Machine) -> Iterator[Value]:
        return self.of.iterate(m)

    def endless(self) -> bool:
        return self.of.endless()

    def length(self, m: Machine) -> Value:
        return self.of.length(m)

    def asked_number(self) -> Value | None:
        return self.of.asked_number()

    def attribute(self, m: Machine, name: str) -> Value:
        return BuiltIn(name, _nothing)

    def enter(self, m: Machine) -> Value:
        return self


def _trange(call: Call) -> Value:
    return Progress(_range(call))


class NullContext(StandIn):
    """nullcontext(), suppress(): a context that does nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value = NONE) -> None:
        self.value = value

    def enter(self, m: Machine) -> Value:
        return self.value


def _null(call: Call) -> Value:
    return NullContext(call.argument(0, "enter_result") or NONE)


class Record(StandIn):
    """SimpleNamespace and its like: attributes that were given, and others that may be."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values

    def attribute(self, m: Machine, name: str) -> Value:
        found = self.values.get(name)
        return found if found is not None else Value.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.write(self.values, name, value)

    def held(self) -> list[Value]:
        return list(self.values.values())

    def takes_part(self) -> bool:
        return any(value.takes_part() for value in self.values.values())


def _namespace(call: Call) -> Value:
    return Record(dict(call.kwargs))


@dataclass(slots=True, eq=False)
class NamedTuple(Tuple):
    """What a class made by namedtuple() makes."""

    names: tuple[str, ...] = ()

    def attribute(self, m: Machine, name: str) -> Value:
        if name in self.names:
            return self.values[self.names.index(name)]
        if name == "_replace":
            return BuiltIn(name, self._replaced)
        return Tuple.attribute(self, m, name)

    def _replaced(self, call: Call) -> Value:
        values = [call.kwargs.get(name, self.attribute(call.m, name)) for name in self.names]
        return NamedTuple(values, self.names)


def _namedtuple(call: Call) -> Value:
    """namedtuple("State", "model optimizer"), or with a list of names."""
    fields = call.argument(1, "field_names")
    fields = fields.resolve(call.m) if fields is not None else NONE
    parts = [fields] if isinstance(fields, Constant) else as_list(call.m, fields).values
    texts = [part.value for part in parts if isinstance(part, Constant)]
    names = tuple(" ".join(map(str, texts)).replace(",", " ").split())
    if len(texts) < len(parts) or call.kwargs.keys() - {"field_names"}:
        return call.unseen(BuiltIn("collections.namedtuple", _namedtuple))

    def make(made: Call) -> Value:
        given = dict(zip(names, made.args, strict=False)) | made.kwargs
        if made.open or given.keys() != set(names):
            return made.unseen(BuiltIn("a named tuple", make))
        return NamedTuple([given[name] for name in names], names)

    return BuiltIn("a named tuple", make)


def _record_replace(call: Call) -> Value:
    """dataclasses.replace(record, field=value)."""
    record = call.args[0].resolve(call.m) if call.args else NONE
    if isinstance(record, Instance):
        return record.replaced(call)
    return call.unseen(BuiltIn("dataclasses.replace", _record_replace))


def _defaultdict(call: Call) -> Value:
    made = Dict()
    made.open = True
    return made


def _deque(call: Call) -> Value:
    if call.args:
        return as_list(call.m, call.args[0].resolve(call.m))
    return List([], False)


def _deepcopy(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, Dict):
        return Dict(dict(given.values), given.open)
    if isinstance(given, List):
        return List([unknowns.copied(call.m, value) for value in given.values], given.open)
    return unknowns.copied(call.m, given)


def _chance(call: Call) -> Value:
    return call.m.unknown("chance", data=True, fixed=False)


class ParsedArguments(StandIn):
    """parse_args(): options, whose defaults are one setting among others."""

    __slots__ = ("label",)
    OPTIONS = True

    def __init__(self) -> None:
        self.label = "args"

    @property
    def key(self) -> tuple[str, str]:
        return ("options", self.label)

    @property
    def text(self) -> str:
        return self.label

    def named(self, m: Machine, name: str) -> None:
        self.label = name


class ArgumentParser(StandIn):
    __slots__ = ()

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "parse_args":
            return BuiltIn(name, lambda call: ParsedArguments())
        if name == "parse_known_args":
            return BuiltIn(name, lambda call: Tuple([ParsedArguments(), List([])]))
        if name in ("add_argument_group", "add_mutually_exclusive_group", "add_parser"):
            return BuiltIn(name, lambda call: self)
        return BuiltIn(name, lambda call: NONE)


BUILTINS: dict[str, Work] = {
    "range": _range,
    "len": _len,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _iter,
    "next": _next,
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "frozenset": _set,
    "dict": _dict,
    "int": _number(int),
    "float": _number(float),
    "str": _number(str),
    "bool": _bool,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "sum": _sum,
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "getattr": _getattr,
    "setattr": _setattr,
    "delattr": _delattr,
    "super": _super,
    "print": _print,
    "exit": _exit,
    "quit": _exit,
    "filter": _filter,
    "map": _map,
    "any": _any,
    "all": _all,
    "sorted": _same_elements,
    "reversed": _same_elements,
    "round": _round,
    "abs": _abs,
    "type": _type,
    "vars": _vars,
    "callable": _callable,
    "id": _id,
    "hash": _id,
}
EXACT: dict[str, Work] = {
    "functools.partial": _partial,
    "functools.wraps": lambda call: BuiltIn("wraps", _first),
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_all,
    "itertools.islice": _islice,
    "itertools.cycle": _cycle,
    "itertools.count": _count,
    "itertools.repeat": _repeat,
    "contextlib.nullcontext": _null,
    "contextlib.suppress": _null,
    "types.SimpleNamespace": _namespace,
    "argparse.Namespace": _namespace,
    "argparse.ArgumentParser": lambda call: ArgumentParser(),
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": _dict,
    "collections.deque": _deque,
    "collections.namedtuple": _namedtuple,
    "dataclasses.replace": _record_replace,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _first,
    "sys.exit": _exit,
    "os._exit": _exit,
    "tqdm.tqdm": _progress,
    "tqdm.auto.tqdm": _progress,
    "tqdm.notebook.tqdm": _progress,
    "tqdm.tqdm_notebook": _progress,
    "tqdm.trange": _trange,
    "tqdm.auto.trange": _trange,
    "tqdm.notebook.trange": _trange,
    "rich.progress.track": _progress,
    "random.random": _chance,
    "random.uniform": _chance,
    "random.randint": _chance,
    "math.isnan": lambda call: finite(call, "isnan"),
    "math.isinf": lambda call: finite(call, "isinf"),
    "math.isfinite": lambda call: finite(call, "isfinite"),
    "numpy.isnan": lambda call: finite(call, "isnan"),
    "numpy.isinf": lambda call: finite(call, "isinf"),
    "numpy.isfinite": lambda call: finite(call, "isfinite"),
}
PACKAGES = words(
    """functools itertools contextlib types argparse collections copy dataclasses sys os tqdm rich
    random math numpy"""
)
_MADE: dict[str, Value] = {}


def finite(call: Call, name: str) -> Value:
    from gradkeeper.lint.libraries.tensors import Finite

    return Finite(name, call.argument(0) or NONE)


def builtin(name: str) -> Value | None:
    found = _MADE.get(name)
    if found is None:
        work = BUILTINS.get(name)
        if work is None:
            return None
        found = _MADE[name] = BuiltIn(name, work)
    return found


def find(m: Machine, name: str) -> Value | None:
    work = EXACT.get(name)
    if work is None:
        if name == "math.inf" or name == "numpy.inf":
            return Constant(float("inf"))
        if name == "itertools.chain":
            return None
        return None
    if name == "itertools.chain":
        return LibraryClass(name, work, {"from_iterable": _chain_all})
    return BuiltIn(name, work)
