"""Python's modules, numpy and tqdm, as far as programs that train use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Generator,
    Instance,
    Labelled,
    LibraryClass,
    Partial,
    StandIn,
    as_list,
    visible,
)
from gradkeeper.lint.interpreter.values import (
    NONE,
    Body,
    Call,
    Constant,
    Provenance,
    Value,
)
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import roles
from gradkeeper.lint.libraries.builtins import Work, do_nothing, end_program, make_dict, make_range
from gradkeeper.lint.libraries.iterators import chain, chain_all, count, cycle, islice, repeat
from gradkeeper.lint.libraries.tensors import Finite

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


def _partial(call: Call) -> Value:
    if not call.args:
        return call.m.unknown("partial()")
    return Partial(call.args[0], tuple(call.args[1:]), dict(call.kwargs))


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
        return BuiltIn(name, do_nothing)

    def enter(self, m: Machine) -> Value:
        return self


def _trange(call: Call) -> Value:
    return Progress(make_range(call))


class NullContext(StandIn):
    """nullcontext(), suppress(): a context that does nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value = NONE) -> None:
        self.value = value

    def enter(self, m: Machine) -> Value:
        return self.value


def _null(call: Call) -> Value:
    return NullContext(call.argument(0, "enter_result") or NONE)


class Stack(StandIn):
    """ExitStack(): contexts that are entered one by one and left together."""

    __slots__ = ("entered",)

    def __init__(self) -> None:
        self.entered: list[Value] = []

    @visible
    def enter_context(self, call: Call) -> Value:
        manager = (call.argument(0, "cm") or NONE).resolve(call.m)
        if isinstance(manager, Generator):
            return call.unseen(self)  # it cannot be left half-way, to be gone on with later
        self.entered.append(manager)
        return manager.enter(call.m)

    @visible
    def close(self, call: Call) -> Value:
        self.leave(call.m)
        return NONE

    @visible
    def pop_all(self, call: Call) -> Value:
        other = Stack()
        other.entered, self.entered = self.entered, []
        return other

    def leave(self, m: Machine) -> None:
        while self.entered:
            self.entered.pop().leave(m)


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


class RecordField(StandIn):
    """field(): what a record's attribute is unless somebody says otherwise."""

    __slots__ = ("default", "factory", "given")

    def __init__(self, default: Value | None, factory: Value | None, given: bool) -> None:
        self.default = default
        self.factory = factory
        self.given = given
        """Whether __init__ takes it."""

    def made(self, m: Machine) -> Value:
        if self.factory is not None:
            return self.factory.call(Call(m))
        return m.unknown("a field") if self.default is None else self.default


def _field(call: Call) -> Value:
    given = call.kwargs.get("init")
    taken = not (isinstance(given, Constant) and given.value is False)
    return RecordField(call.kwargs.get("default"), call.kwargs.get("default_factory"), taken)


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
    made = as_list(call.m, call.args[0].resolve(call.m)) if call.args else List([], False)
    made.lets_go = (call.argument(1, "maxlen") or NONE) is not NONE
    return made


def _deepcopy(call: Call) -> Value:
    given = (call.argument(0) or NONE).resolve(call.m)
    if isinstance(given, Dict):
        return Dict(dict(given.values), given.open)
    if isinstance(given, List):
        return List([roles.copied(call.m, value) for value in given.values], given.open)
    return roles.copied(call.m, given)


def _chance(call: Call) -> Value:
    return call.m.unknown("chance", data=True, fixed=False)


class ParsedArguments(Labelled):
    """parse_args(): options, whose defaults are one setting among others."""

    __slots__ = ()
    OPTIONS = True

    def __init__(self) -> None:
        self.label = "args"

    @property
    def key(self) -> tuple[str, str]:
        return ("options", self.label)


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


EXACT: dict[str, Work] = {
    "functools.partial": _partial,
    "functools.wraps": lambda call: BuiltIn("wraps", _first),
    "itertools.chain": chain,
    "itertools.chain.from_iterable": chain_all,
    "itertools.islice": islice,
    "itertools.cycle": cycle,
    "itertools.count": count,
    "itertools.repeat": repeat,
    "contextlib.nullcontext": _null,
    "contextlib.suppress": _null,
    "contextlib.ExitStack": lambda call: Stack(),
    "types.SimpleNamespace": _namespace,
    "argparse.Namespace": _namespace,
    "argparse.ArgumentParser": lambda call: ArgumentParser(),
    "collections.defaultdict": _defaultdict,
    "collections.OrderedDict": make_dict,
    "collections.deque": _deque,
    "collections.namedtuple": _namedtuple,
    "dataclasses.field": _field,
    "dataclasses.replace": _record_replace,
    "copy.deepcopy": _deepcopy,
    "copy.copy": _first,
    "sys.exit": end_program,
    "os._exit": end_program,
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
    "math.isnan": lambda call: _finite(call, "isnan"),
    "math.isinf": lambda call: _finite(call, "isinf"),
    "math.isfinite": lambda call: _finite(call, "isfinite"),
    "numpy.isnan": lambda call: _finite(call, "isnan"),
    "numpy.isinf": lambda call: _finite(call, "isinf"),
    "numpy.isfinite": lambda call: _finite(call, "isfinite"),
}
PACKAGES = words(
    """functools itertools contextlib types argparse collections copy dataclasses sys os tqdm rich
    random math numpy"""
)


def _finite(call: Call, name: str) -> Value:
    return Finite(name, call.argument(0) or NONE)


def find(m: Machine, name: str) -> Value | None:
    work = EXACT.get(name)
    if work is None:
        if name == "math.inf" or name == "numpy.inf":
            return Constant(float("inf"))
        return None
    if name == "itertools.chain":
        return LibraryClass(name, work, {"from_iterable": chain_all})
    return BuiltIn(name, work)
