"""Python's own functions: range, isinstance, filter and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Super,
    Zipped,
    as_list,
)
from gradkeeper.lint.interpreter.state import ProgramEndsError
from gradkeeper.lint.interpreter.values import (
    FALSE,
    NONE,
    TRUE,
    Call,
    Condition,
    Constant,
    Count,
    Unknown,
    Value,
    truth_value,
)
from gradkeeper.lint.interpreter.vocabulary import OPTIMIZERS, words
from gradkeeper.lint.libraries.data import Opened, StatefulLoader
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


def make_range(call: Call) -> Value:
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


def make_dict(call: Call) -> Value:
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
    if not isinstance(base, BuiltIn) or base.work not in (make_dict, _list):
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
    if isinstance(value, Optimizer) and value.exactly:
        known = _is_optimizer_of(value, options)
        if known is not None:
            return TRUE if known else FALSE
    built = isinstance(value, (Optimizer, Scheduler)) or (isinstance(value, Module) and value.seen)
    if built and names <= CONTAINERS:
        return FALSE
    return truth_value(Condition("isinstance", value, kinds))


def _is_optimizer_of(value: Optimizer, kinds: list[Value]) -> bool | None:
    """Whether one of PyTorch's is of one of these kinds, if these are PyTorch's, too."""
    if not all(
        isinstance(kind, LibraryClass) and kind.name.startswith(OPTIMIZERS) for kind in kinds
    ):
        return None
    names = {kind.text for kind in kinds}
    if names & {value.kind, "Optimizer"}:
        return True
    # Of late, AdamW derives from Adam.
    return None if value.kind == "AdamW" and "Adam" in names else False


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


def do_nothing(call: Call) -> Value:
    return NONE


def end_program(call: Call) -> Value:
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


def _settled_by(name: str, decisive: bool) -> Work:
    """any(), all(): one element that is `decisive` settles it."""

    def work(call: Call) -> Value:
        given = (call.argument(0) or NONE).resolve(call.m)
        if isinstance(given, Collection) and not getattr(given, "open", False):
            answers = [element.truth(call.m) for element in given.elements()]
            if decisive in answers:
                return truth_value(decisive)
            if all(answer is not decisive and isinstance(answer, bool) for answer in answers):
                return truth_value(not decisive)
        return truth_value(Condition(name, given))

    return work


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


def _divmod(call: Call) -> Value:
    if len(call.args) != 2:
        return call.m.unknown("divmod()", *call.values())
    count, by = (argument.resolve(call.m) for argument in call.args)
    return Tuple([call.m.combine(sign, count, by) for sign in ("//", "%")])


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


BUILTINS: dict[str, Work] = {
    "range": make_range,
    "len": _len,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _iter,
    "next": _next,
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "frozenset": _set,
    "dict": make_dict,
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
    "exit": end_program,
    "quit": end_program,
    "filter": _filter,
    "map": _map,
    "any": _settled_by("any", True),
    "all": _settled_by("all", False),
    "sorted": _same_elements,
    "reversed": _same_elements,
    "round": _round,
    "abs": _abs,
    "divmod": _divmod,
    "type": _type,
    "vars": _vars,
    "callable": _callable,
    "id": _id,
    "hash": _id,
}


_MADE: dict[str, Value] = {}


def builtin(name: str) -> Value | None:
    found = _MADE.get(name)
    if found is None:
        work = BUILTINS.get(name)
        if work is None:
            return None
        found = _MADE[name] = BuiltIn(name, work)
    return found
