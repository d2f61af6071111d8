"""Functions, classes and what is made of them, and the base of stand-ins for libraries."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeVar

from gradkeeper.lint.interpreter.containers import Collection, Dict, List, Tuple
from gradkeeper.lint.interpreter.values import (
    NONE,
    NOTHING,
    Body,
    Call,
    Condition,
    Constant,
    Provenance,
    Value,
)

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.frames import Frame
    from gradkeeper.lint.interpreter.machine import Machine

MOST_GATHERED = 40
"""Elements of a generator that are had before somebody asks for them one by one."""
Code = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True, eq=False)
class Function(Value):
    """A function of the program, with the frame it was defined in."""

    code: Code
    frame: Frame
    defaults: list[Value] = field(default_factory=list)
    kw_defaults: dict[str, Value] = field(default_factory=dict)
    home: Class | None = None
    attributes: dict[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "<lambda>" if isinstance(self.code, ast.Lambda) else self.code.name

    @property
    def key(self) -> Hashable:
        return ("function", id(self.code), id(self.frame))

    @property
    def text(self) -> str:
        return self.name

    def call(self, call: Call) -> Value:
        return call.m.run_function(self, call)

    def acts(self, m: Machine) -> bool:
        return m.facts.is_loud(self.code)

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "__name__":
            return Constant(self.name)
        return self.attributes.get(name) or Value.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.attributes[name] = value

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        return instance.with_native(m, name, Method(self, instance))


@dataclass(slots=True, eq=False)
class Method(Value):
    """A function bound to its receiver."""

    function: Function
    receiver: Value

    @property
    def key(self) -> Hashable:
        return ("method", self.function.key, self.receiver.key)

    @property
    def text(self) -> str:
        return f"{self.receiver.text}.{self.function.name}"

    def acts(self, m: Machine) -> bool:
        return self.function.acts(m)

    def call(self, call: Call) -> Value:
        bound = Call(call.m, [self.receiver, *call.args], call.kwargs, open=call.open)
        return call.m.run_function(self.function, bound)

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        return self.function.attribute(m, name)


@dataclass(slots=True, eq=False)
class Partial(Value):
    function: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]

    @property
    def text(self) -> str:
        return self.function.text

    def call(self, call: Call) -> Value:
        whole = Call(call.m, [*self.args, *call.args], {**self.kwargs, **call.kwargs})
        return self.function.call(whole)


@dataclass(slots=True, eq=False)
class Generator(Value):
    """A call of a generator function that has not run yet: a loop over it runs it."""

    function: Function
    arguments: Call
    waiting: list[Value] | None = None
    """What it gave, once somebody asked for one element after the other."""
    given: int = 0
    """How often somebody did."""

    @property
    def text(self) -> str:
        return f"{self.function.name}()"

    def for_each(self, m: Machine, body: Body) -> None:
        if self.waiting is not None:
            Value.for_each(self, m, body)
            return
        m.run_generator(self.function, self.arguments, body)

    def iterate(self, m: Machine) -> Iterator[Value]:
        if self.waiting is None:
            self.waiting = []
            gathered, since = self.waiting, m.serial

            def gather(element: Value) -> bool:
                nonlocal since
                m.hands_out(self, since)
                since = m.serial
                gathered.append(element)
                return len(gathered) >= MOST_GATHERED

            m.run_generator(self.function, self.arguments, gather)
        while self.waiting:
            yield self.waiting.pop(0)

    def endless(self) -> bool:
        return False

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "__next__":
            return BuiltIn("next", lambda call: m.next_of(self))
        return Value.attribute(self, m, name)

    def enter(self, m: Machine) -> Value:
        return m.unknown(self.text)


class BuiltIn(Value):
    """A function of Python's or of a library, written here."""

    __slots__ = ("name", "of", "work")

    def __init__(
        self, name: str, work: Callable[[Call], Value], *, of: Value | None = None
    ) -> None:
        self.name = name
        self.work = work
        self.of = of
        """Whose method it is: asked for again, it is the same."""

    @property
    def key(self) -> Hashable:
        return ("builtin", self.name, id(self.work) if self.of is None else self.of.key)

    @property
    def text(self) -> str:
        return self.name

    def call(self, call: Call) -> Value:
        return self.work(call)


F = TypeVar("F", bound=Callable[..., Value])
Stub = Callable[["StandIn", Call], Value]


def visible(method: F) -> F:
    """Marks a method of a stand-in that programs may call under its own name."""
    method.visible = True  # type: ignore[attr-defined]
    return method


class StandIn(Value):
    """Something of a library. Methods marked `visible` are what a program finds there."""

    __slots__ = ()
    METHODS: ClassVar[dict[str, Stub]] = {}
    OPTIONS: ClassVar[bool] = False
    """What lies in it is read from a command line: numbers and names, no networks."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {
            name.rstrip("_") if name in ("with_", "import_") else name: method
            for name, method in vars(cls).items()
            if getattr(method, "visible", False)
        }
        inherited: dict[str, Stub] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(vars(base).get("METHODS", {}))
        cls.METHODS = {**inherited, **own}

    def takes_part(self) -> bool:
        return True

    def attribute(self, m: Machine, name: str) -> Value:
        method = self.METHODS.get(name)
        if method is not None:
            return StandInMethod(self, name, method)
        return Value.attribute(self, m, name)


class Labelled(StandIn):
    """Goes by the name of the variable that it was last assigned to."""

    __slots__ = ("label",)
    label: str

    @property
    def text(self) -> str:
        return self.label

    def named(self, m: Machine, name: str) -> None:
        self.label = name


@dataclass(slots=True, eq=False)
class StandInMethod(Value):
    of: StandIn
    name: str
    method: Stub

    @property
    def key(self) -> Hashable:
        return ("method", self.of.key, self.name)

    @property
    def text(self) -> str:
        return f"{self.of.text}.{self.name}"

    @property
    def receiver(self) -> Value:
        return self.of

    def call(self, call: Call) -> Value:
        return self.method(self.of, call)

    def attribute(self, m: Machine, name: str) -> Value:
        return self.of if name == "__self__" else Value.attribute(self, m, name)


class LibraryClass(Value):
    """A class of a library: calling it makes a stand-in; programs may derive from it."""

    __slots__ = ("half", "make", "name", "statics")

    def __init__(
        self,
        name: str,
        make: Callable[[Call], Value],
        statics: dict[str, Callable[[Call], Value]] | None = None,
        half: Callable[[Instance, Call], Value] | None = None,
    ) -> None:
        self.name = name
        self.make = make
        self.statics = statics or {}
        self.half = half
        """What an object of a class that derives from it has of the library."""

    @property
    def key(self) -> Hashable:
        return ("class", self.name)

    @property
    def text(self) -> str:
        return self.name.rpartition(".")[2]

    def call(self, call: Call) -> Value:
        return self.make(call)

    def attribute(self, m: Machine, name: str) -> Value:
        work = self.statics.get(name)
        if work is not None:
            return BuiltIn(name, work)
        if name == "__name__":
            return Constant(self.text)
        return UnboundMethod(self, name)


@dataclass(slots=True, eq=False)
class UnboundMethod(Value):
    """`nn.Module.__init__`: a library's method, asked for through its class."""

    cls: LibraryClass
    name: str

    def call(self, call: Call) -> Value:
        if call.args and isinstance(call.args[0], Instance):
            rest = Call(call.m, call.args[1:], call.kwargs)
            return call.args[0].inherited(call.m, self.name).call(rest)
        return call.unseen(self)


@dataclass(slots=True, eq=False)
class Class(Value):
    """A class of the program."""

    code: ast.ClassDef
    frame: Frame
    bases: list[Value] = field(default_factory=list)
    members: dict[str, Value] = field(default_factory=dict)
    _line: list[Class] | None = None

    @property
    def name(self) -> str:
        return self.code.name

    @property
    def key(self) -> Hashable:
        return ("class", id(self.code))

    @property
    def text(self) -> str:
        return self.code.name

    def ancestors(self) -> list[Class]:
        """Itself and the program's classes above it, in the order of look-ups."""
        if self._line is not None:
            return self._line
        found: dict[int, Class] = {}
        waiting: list[Value] = [self]
        while waiting and len(found) < 32:
            cls = waiting.pop(0)
            if isinstance(cls, Class) and id(cls.code) not in found:
                found[id(cls.code)] = cls
                waiting = [*cls.bases, *waiting]
        self._line = list(found.values())
        return self._line

    def acts(self, m: Machine) -> bool:
        """What is made of it does, when it is asked to."""
        return any(member.acts(m) for cls in self.ancestors() for member in cls.members.values())

    def libraries(self) -> list[Value]:
        """The bases that are not the program's own."""
        return [
            base for cls in self.ancestors() for base in cls.bases if not isinstance(base, Class)
        ]

    def member(self, name: str) -> Value | None:
        for cls in self.ancestors():
            if name in cls.members:
                return cls.members[name]
        return None

    def above(self, home: Class, name: str) -> Value | None:
        """What `super()` finds in a method of `home`."""
        line = self.ancestors()
        if home in line:
            line = line[line.index(home) + 1 :]
        for cls in line:
            if name in cls.members:
                return cls.members[name]
        return None

    def call(self, call: Call) -> Value:
        return call.m.make_instance(self, call)

    def attribute(self, m: Machine, name: str) -> Value:
        found = self.member(name)
        if found is not None:
            return found.of_class(self)
        if name == "__name__":
            return Constant(self.name)
        for base in self.libraries():
            return base.attribute(m, name)
        return Value.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.write(self.members, name, value)


@dataclass(slots=True, eq=False)
class ClassMethod(Value):
    function: Function

    def of_class(self, cls: Class) -> Value:
        return Method(self.function, cls)

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        return Method(self.function, instance.cls)


@dataclass(slots=True, eq=False)
class StaticMethod(Value):
    function: Function

    def call(self, call: Call) -> Value:
        return self.function.call(call)

    def of_class(self, cls: Class) -> Value:
        return self.function

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        return self.function


@dataclass(slots=True, eq=False)
class Property(Value):
    function: Function
    kept: bool = False
    """cached_property: computed once for each object."""

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        found = m.run_function(self.function, Call(m, [instance]))
        if self.kept:
            instance.set_attribute(m, name, found)
        return found


@dataclass(slots=True, eq=False)
class Instance(Value):
    """An object of a class of the program. `native` is what it inherits from a library."""

    cls: Class
    number: int
    """Which object of its class it is: the same in every run."""
    attributes: dict[str, Value] = field(default_factory=dict)
    native: Value | None = None
    label: str = ""
    invented: bool = False
    """Its caller is not seen: what is None may have been set by a method since."""
    fetching: set[str] = field(default_factory=set)
    """Attributes that are being looked for in set-up methods."""
    given: tuple[Value, ...] = ()
    """What it was made of, which a base class out of sight may have kept."""

    @property
    def key(self) -> Hashable:
        return ("instance", id(self.cls.code), self.number)

    @property
    def text(self) -> str:
        return self.label or self.cls.name

    def sources(self) -> Provenance:
        return self.native.sources() if self.native else NOTHING

    def takes_part(self) -> bool:
        acts = any(
            isinstance(member, Function) and not name.startswith("__")
            for name, member in self.cls.members.items()
        )
        return (
            acts
            or self.native is not None
            or any(attribute.takes_part() for attribute in self.attributes.values())
        )

    def named(self, m: Machine, name: str) -> None:
        self.label = self.label or name
        if self.native is not None:
            self.native.named(m, name)

    def attribute(self, m: Machine, name: str) -> Value:
        if name in self.attributes:
            found = self.attributes[name]
            if self.invented and isinstance(found, Constant) and found.value is None:
                return m.set_up(self, name) or found
            return found
        member = self.cls.member(name)
        if member is not None:
            return member.of_object(m, self, name)
        if name == "__class__":
            return self.cls
        if name == "__dict__":
            return Dict.of((Constant(key), value) for key, value in self.attributes.items())
        if name == "__setattr__":
            return BuiltIn(name, self._set_by_name)
        if name == "_replace" and isinstance(self.native, Tuple):
            return BuiltIn(name, self.replaced)
        return self._elsewhere(m, name)

    def with_native(self, m: Machine, name: str, bound: Value) -> Value:
        """A method of its own, with what a library does around methods of this name."""
        return self.native.around(m, name, bound) if self.native is not None else bound

    def _set_by_name(self, call: Call) -> Value:
        """`self.__setattr__(f"layer{i}", layer)`."""
        name, value = call.argument(0) or NONE, call.argument(1) or NONE
        self.set_attribute(
            call.m, str(name.value) if isinstance(name, Constant) else name.text, value
        )
        return NONE

    def replaced(self, call: Call) -> Value:
        """Another object like this one, with other values in some of its fields."""
        made = Instance(self.cls, call.m.count(self.cls), {**self.attributes, **call.kwargs})
        if isinstance(self.native, Tuple):
            made.native = Tuple(list(made.attributes.values()))
        return made

    def _elsewhere(self, m: Machine, name: str) -> Value:
        """Set by another method, given by the library it derives from, or not known."""
        provided = m.set_up(self, name)
        if provided is not None:
            return provided
        asked = self.cls.member("__getattr__")
        if isinstance(asked, Function) and name not in self.fetching:
            self.fetching.add(name)
            try:
                return m.run_function(asked, Call(m, [self, Constant(name)]))
            finally:
                self.fetching.discard(name)
        return self.inherited(m, name)

    def inherited(self, m: Machine, name: str) -> Value:
        native = self.native
        if native is not None and not (isinstance(native, Dict) and not hasattr(dict, name)):
            return native.attribute(m, name)
        if name == "__init__":
            return BuiltIn("__init__", lambda call: NONE)
        return Value.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.write(self.attributes, name, value)
        value.named(m, name)
        if self.native is not None:
            self.native.set_attribute(m, name, value)

    def _special(self, m: Machine, name: str, *args: Value) -> Value | None:
        member = self.cls.member(name)
        if isinstance(member, Function):
            return m.run_function(member, Call(m, [self, *args]))
        return None

    def call(self, call: Call) -> Value:
        member = self.cls.member("__call__")
        if isinstance(member, Function):
            whole = Call(call.m, [self, *call.args], call.kwargs, open=call.open)
            return call.m.run_function(member, whole)
        if self.native is not None:
            return self.native.call(call)
        return call.unseen(self)

    def item(self, m: Machine, key: Value) -> Value:
        found = self._special(m, "__getitem__", key)
        if found is not None:
            return found
        return self.native.item(m, key) if self.native else Value.item(self, m, key)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if self._special(m, "__setitem__", key, value) is None:
            (self.native or Value()).set_item(m, key, value)

    def length(self, m: Machine) -> Value:
        found = self._special(m, "__len__")
        if found is not None:
            return found
        return self._content.length(m) if self._content else Value.length(self, m)

    def truth(self, m: Machine) -> bool | Condition:
        found = self._special(m, "__bool__")
        if found is not None:
            return found.truth(m)
        return self._content.truth(m) if self._content else True

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        found = self._special(m, "__contains__", element)
        if found is not None:
            return found.truth(m)
        if self._content:
            return self._content.contains(m, element)
        return Value.contains(self, m, element)

    @property
    def _content(self) -> Collection | None:
        """What it holds, where its class derives from one of Python's containers."""
        return self.native if isinstance(self.native, Collection) else None

    def equals(self, m: Machine, other: Value) -> bool | Condition:
        return self is other if not self.cls.member("__eq__") else Condition("==", self, other)

    def for_each(self, m: Machine, body: Body) -> None:
        member = self.cls.member("__iter__")
        if isinstance(member, Function):
            made = m.run_function(member, Call(m, [self]))
            if made is not self:
                made.for_each(m, body)
                return
        if self.cls.member("__next__") is not None:
            while not body(m.next_of(self)):
                pass
            return
        if self.native is not None:
            self.native.for_each(m, body)
            return
        Value.for_each(self, m, body)

    def iterate(self, m: Machine) -> Iterator[Value]:
        member = self.cls.member("__iter__")
        if isinstance(member, Function):
            made = m.run_function(member, Call(m, [self]))
            if made is not self:
                yield from made.iterate(m)
                return
        if self.native is not None:
            yield from self.native.iterate(m)
            return
        yield from Value.iterate(self, m)

    def endless(self) -> bool:
        if self.cls.member("__iter__") is not None:
            return False
        return self._content is None or self._content.endless()

    def next_element(self, m: Machine) -> Value | None:
        return self._special(m, "__next__")

    def operate(self, m: Machine, sign: str, other: Value, *, swapped: bool = False) -> Value:
        if self.native is not None and self.native.absorbs():
            return self.native.operate(m, sign, other, swapped=swapped)
        return Value.operate(self, m, sign, other, swapped=swapped)

    def enter(self, m: Machine) -> Value:
        found = self._special(m, "__enter__")
        if found is None:
            found = self._special(m, "__aenter__")
        if found is None:
            return self.native.enter(m) if self.native else self
        return found

    def leave(self, m: Machine) -> None:
        if self._special(m, "__exit__", NONE, NONE, NONE) is None and self.native is not None:
            self.native.leave(m)


@dataclass(slots=True, eq=False)
class Super(Value):
    """super(): the same object, seen from the class above."""

    of: Value
    home: Class

    def attribute(self, m: Machine, name: str) -> Value:
        cls = self.of.cls if isinstance(self.of, Instance) else self.of
        if not isinstance(cls, Class):
            return Value.attribute(self, m, name)
        found = cls.above(self.home, name)
        if isinstance(found, Property) and isinstance(self.of, Instance):
            return m.run_function(found.function, Call(m, [self.of]))
        if isinstance(found, (Function, ClassMethod)):
            function = found if isinstance(found, Function) else found.function
            return Method(function, self.of)
        if found is not None:
            return found
        if isinstance(self.of, Instance):
            return self.of.inherited(m, name)
        return Value.attribute(self, m, name)


@dataclass(slots=True, eq=False)
class Namespace(Value):
    """A module of the program or of a library: names, some known."""

    name: str
    names: dict[str, Value]
    find: Callable[[str], Value | None]

    @property
    def key(self) -> Hashable:
        return ("module", self.name)

    @property
    def text(self) -> str:
        return self.name

    def attribute(self, m: Machine, name: str) -> Value:
        found = self.names.get(name)
        if found is None:
            found = self.find(name)
            if found is None:
                return m.unknown(f"{self.name}.{name}", self, part=True)
        return found

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        m.write(self.names, name, value)


@dataclass(slots=True, eq=False)
class Enumerated(Value):
    """enumerate(): elements with their positions."""

    of: Value
    start: Value

    @property
    def text(self) -> str:
        return self.of.text

    def for_each(self, m: Machine, body: Body) -> None:
        place = -1

        def numbered(element: Value) -> bool:
            nonlocal place
            place += 1
            index = m.round_number(place, self).operate(m, "+", self.start)
            return body(Tuple([index, element]))

        self.of.for_each(m, numbered)

    def iterate(self, m: Machine) -> Iterator[Value]:
        for place, element in enumerate(self.of.iterate(m)):
            yield Tuple([m.round_number(place, self).operate(m, "+", self.start), element])

    def endless(self) -> bool:
        return self.of.endless()

    def length(self, m: Machine) -> Value:
        return self.of.length(m)

    def sources(self) -> Provenance:
        return self.of.sources()


@dataclass(slots=True, eq=False)
class Zipped(Value):
    """zip(): the first one sets the pace, the others go along."""

    of: tuple[Value, ...]

    @property
    def text(self) -> str:
        return self.of[0].text if self.of else "zip()"

    def _pace(self) -> int:
        """Whose elements run out first, as far as one can tell."""
        known = [place for place, iterable in enumerate(self.of) if not iterable.endless()]
        return known[0] if known else 0

    def for_each(self, m: Machine, body: Body) -> None:
        if not self.of:
            return
        pace = self._pace()
        rest = [iterable.iterate(m) for place, iterable in enumerate(self.of) if place != pace]

        def together(element: Value) -> bool:
            others = [next(iterator, None) for iterator in rest]
            if None in others:
                return True
            found = [other for other in others if other is not None]
            found.insert(pace, element)
            return body(Tuple(found))

        self.of[pace].for_each(m, together)

    def iterate(self, m: Machine) -> Iterator[Value]:
        for group in zip(*(iterable.iterate(m) for iterable in self.of), strict=False):
            yield Tuple(list(group))

    def endless(self) -> bool:
        return all(iterable.endless() for iterable in self.of)

    def length(self, m: Machine) -> Value:
        return self.of[self._pace()].length(m) if self.of else Constant(0)

    def sources(self) -> Provenance:
        found: Provenance = NOTHING
        for iterable in self.of:
            found |= iterable.sources()
        return found


@dataclass(slots=True, eq=False)
class Iterated(Value):
    """iter(): hands out one element after the other, to whoever asks."""

    of: Value
    left: Iterator[Value] | None = None
    given: int = 0

    @property
    def text(self) -> str:
        return self.of.text

    def iterate(self, m: Machine) -> Iterator[Value]:
        if self.left is None:
            self.left = self.of.iterate(m)
        return self.left

    def for_each(self, m: Machine, body: Body) -> None:
        if self.left is None and self.given == 0:
            self.of.for_each(m, body)
            return
        for element in self.iterate(m):
            if body(element):
                return

    def endless(self) -> bool:
        return self.of.endless()

    def sources(self) -> Provenance:
        return self.of.sources()


def flatten(values: Sequence[Value]) -> Sequence[Value]:
    """The values and what collections among them hold."""
    for value in values:
        if value.HOLDS and value.held():
            break
    else:
        return values
    found: list[Value] = []
    waiting = list(values[::-1])
    while waiting and len(found) < 512:
        value = waiting.pop()
        found.append(value)
        waiting.extend(list(value.held())[::-1])
    return found


def as_list(m: Machine, value: Value) -> List:
    """list(value)."""
    if value.endless():
        first = next(iter(value.iterate(m)), None)
        return List([] if first is None else [first], open=True)
    found: list[Value] = []

    def take(element: Value) -> bool:
        found.append(element)
        return len(found) >= 256

    value.for_each(m, take)
    return List(found, getattr(value, "open", False) is True)
