"""The whole machine: calls, classes, generators and imports on top of statements."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.frames import Frame, Import, OwnModule
from gradkeeper.lint.interpreter.objects import (
    Class,
    ClassMethod,
    Code,
    Function,
    Generator,
    Instance,
    Iterated,
    Namespace,
    Property,
    StaticMethod,
)
from gradkeeper.lint.interpreter.state import COUNT, DataEndsError
from gradkeeper.lint.interpreter.statements import Return, Statements
from gradkeeper.lint.interpreter.values import (
    NONE,
    Body,
    Call,
    Condition,
    Constant,
    Length,
    Unknown,
    Value,
    either,
)

DEEPEST = 40
MOST_NESTED = 3
"""How often a function may be entered inside itself."""


def is_left_open(code: Code) -> bool:
    """A method that subclasses are to write: all it does is to say so."""
    if isinstance(code, ast.Lambda):
        return False
    last = code.body[-1]
    documented = len(code.body) == 2 and isinstance(code.body[0], ast.Expr)
    if not isinstance(last, ast.Raise) or not (len(code.body) == 1 or documented):
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _not_known(call: Call) -> list[Value]:
    """What a function is given to work on, if none of it is known, its object and options aside."""
    given = [value for value in call.values() if not isinstance(value, (Instance, Constant))]
    return given if all(type(value) is Unknown for value in given) else []


def _last_word(expression: ast.expr) -> str:
    """What a name or a dotted name ends in."""
    return str(getattr(expression, "attr", getattr(expression, "id", "")))


class Signature:
    """How a function takes its arguments."""

    __slots__ = ("known", "kwarg", "left_open", "names", "vararg")

    def __init__(self, code: Code) -> None:
        spec = code.args
        self.names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
        self.known = dict.fromkeys([*self.names, *(argument.arg for argument in spec.kwonlyargs)])
        self.vararg = spec.vararg.arg if spec.vararg else ""
        self.kwarg = spec.kwarg.arg if spec.kwarg else ""
        self.left_open = is_left_open(code)


class _EnoughError(Exception):
    """A loop over a generator was left: the generator ends too."""


class Machine(Statements):
    """Runs a program on values, along one plan."""

    __slots__ = ()

    # -- modules

    def run_module(self, tree: ast.Module, file: str, name: str) -> Frame:
        """Runs a file from its first line in a frame of its own."""
        frame = self.module_frame(file, name)
        self.run_in(frame, tree.body)
        return frame

    def module_frame(self, file: str, name: str) -> Frame:
        known: dict[str, Value] = {"__name__": Constant(name), "__file__": Constant(file)}
        return Frame(known, None, None, "<module>", file)

    def run_in(self, frame: Frame, body: list[ast.stmt]) -> None:
        """Runs the lines of a file, wherever the run is just now."""
        with self._outside():
            self.frame = frame
            self.block(body)

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """What runs inside lies in no loop or branch of what runs just now."""
        before = (self.frame, self.loops, self.node, self.deciding, self.gating)
        half_taken = (self._journal, self._speculating)
        self.loops, self.deciding, self.gating = [], False, 0
        self._journal, self._speculating = None, []
        try:
            yield
        finally:
            self.frame, self.loops, self.node, self.deciding, self.gating = before
            self._journal, self._speculating = half_taken

    def import_names(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self.write(self.frame.names, alias.asname, self._module(alias.name))
            else:
                whole = self._module(alias.name)
                top, _, rest = alias.name.partition(".")
                found = self._module(top)
                if rest and isinstance(whole, OwnModule) and not isinstance(found, OwnModule):
                    found = self._folder(top, self.frame.file)
                self.write(self.frame.names, top, found)

    def import_from(self, node: ast.ImportFrom) -> None:
        frame = self.frame
        home = self._own_module(node.module or "", node.level)
        for alias in node.names:
            name = alias.asname or alias.name
            wanted = Import(frame.file, node.module or "", node.level, alias.name)
            if alias.name == "*":
                if home is not None:
                    self._import_all(home)
                else:
                    frame.stars = True
            elif home is not None and frame.around is None and name not in frame.names:
                self.write(frame.imports, name, wanted)
            else:
                self.write(frame.names, name, self._imported(wanted))

    def _import_all(self, home: OwnModule) -> None:
        there = home.all_names(self)
        self.frame.stars = self.frame.stars or there.stars
        for table, names in ((self.frame.names, there.names), (self.frame.imports, there.imports)):
            for name, value in list(names.items()):
                if not name.startswith("_"):
                    self.write(table, name, value)

    def _imported(self, wanted: Import) -> Value:
        """What an import brings, now that somebody asks for it."""
        module, level, name = wanted.module, wanted.level, wanted.name
        home = self._own_module(module, level, wanted.file)
        if home is not None:
            return home.attribute(self, name)
        inner = self._own_module(f"{module}.{name}" if module else name, level, wanted.file)
        if inner is not None:
            return inner
        dotted = f"{module}.{name}"
        library = self.libraries.find(self, dotted) if not level else None
        return library or Unknown(self.facts.key_of(("import", level, dotted)), name)

    def import_now(self, frame: Frame, name: str) -> Value | None:
        """A name that the file of this frame imports from another one of the project."""
        while frame.around is not None:
            frame = frame.around
        wanted = frame.imports.pop(name, None)
        if wanted is not None:
            found = frame.names[name] = self._imported(wanted)
            return found
        return None

    def define_now(self, frame: Frame, name: str) -> Value | None:
        """A name of a module that is run line by line, or of a definition that could wait."""
        while frame.around is not None:
            frame = frame.around
        waiting = frame.waiting.pop(name, None)
        if waiting is not None:
            self.run_in(frame, [waiting])
            return frame.names.get(name)
        return frame.unread.define(self, name) if frame.unread is not None else None

    def starred(self, frame: Frame, name: str) -> Value | None:
        """A name that nothing in sight defines, in a file that imports all of another one."""
        while frame.around is not None:
            frame = frame.around
        return self.libraries.starred(self, name) if frame.stars else None

    def _own_module(self, name: str, level: int, file: str | None = None) -> OwnModule | None:
        if self.importer is None:
            return None
        return self.importer.module(self, name, level, file or self.frame.file)

    def _folder(self, name: str, file: str) -> Namespace:
        """A package without `__init__.py`: modules that lie in one folder."""

        def find(inner: str) -> Value:
            dotted = f"{name}.{inner}"
            return self._own_module(dotted, 0, file) or self._folder(dotted, file)

        return Namespace(name, {}, find)

    def submodule(self, name: str, file: str) -> OwnModule | None:
        """A module that lies beside the `__init__.py` of a package."""
        if os.path.basename(file) != "__init__.py":
            return None
        return self._own_module(name, 1, file)

    def _module(self, name: str) -> Value:
        own = self._own_module(name, 0)
        if own is not None:
            return own
        found = self.libraries.find(self, name)
        if found is not None:
            return found
        module = Unknown(self.facts.key_of(("import", 0, name)), name)
        self.modules.add(module.key)
        return module

    def is_module(self, value: Value) -> bool:
        """What `import` brings that is not seen, or a part of it: `import tools`, `tools.data`."""
        while isinstance(value, Unknown) and value.of is not None:
            value = value.of
        return value.key in self.modules

    # -- functions

    def define(self, code: Code) -> Function:
        spec = code.args
        defaults = [self.evaluate(default) for default in spec.defaults]
        named = {
            argument.arg: self.evaluate(value)
            for argument, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
            if value is not None
        }
        return Function(code, self.frame, defaults, named, self.frame.home)

    def decorate(self, decorators: list[ast.expr], made: Value) -> Value:
        for expression in reversed(decorators):
            name = expression.id if isinstance(expression, ast.Name) else ""
            if isinstance(made, Function) and name in ("staticmethod", "classmethod", "property"):
                kinds = {"staticmethod": StaticMethod, "classmethod": ClassMethod}
                made = kinds.get(name, Property)(made)
                continue
            if isinstance(made, Function) and _last_word(expression) == "cached_property":
                made = Property(made, kept=True)
                continue
            if isinstance(expression, ast.Attribute) and expression.attr in (
                "setter",
                "getter",
                "deleter",
            ):
                return self.frame.names.get(getattr(expression.value, "id", ""), made)
            decorator = self.evaluate(expression)
            changed = self.libraries.decorated(self, decorator, made)
            if changed is not None:
                made = changed
            elif isinstance(decorator, (Function, Class)):
                self.node = expression
                result = decorator.call(Call(self, [made]))
                made = made if isinstance(result, Unknown) else result
        return made

    def run_function(self, function: Function, call: Call) -> Value:
        code = function.code
        nested = self.entered.count(code)
        if nested >= MOST_NESTED or len(self.entered) >= DEEPEST:
            if self._trains(code):
                self.doubt("training goes deeper than functions are followed")
            return self.unknown(f"{function.name}()", *call.values())
        parts = _not_known(call) if nested else []
        if parts and not self._trains(code):
            # It goes through something nested: a part of what is not known tells no more than that.
            return self.unknown(f"{function.name}()", *parts)
        if id(code) in self.facts.generators:
            return Generator(function, call)
        if self._signature(code).left_open:
            key = self.facts.key_of(("left open", id(code)))
            return self.libraries.call_left_open(Unknown(key, function.name), call)
        frame = self._frame_of(function, call)
        return self._run(function, frame)

    def run_generator(self, function: Function, call: Call, body: Body) -> None:
        """Runs a generator function; each `yield` hands its value to `body`."""
        if self.entered.count(function.code) >= MOST_NESTED:
            return
        frame = self._frame_of(function, call)

        def give(value: Value) -> None:
            if body(value):
                raise _EnoughError

        frame.yields = give
        loops, entered, outer = len(self.loops), len(self.entered), self.frame
        try:
            self._run(function, frame)
        except _EnoughError:
            del self.loops[loops:]
            del self.entered[entered:]
            self.frame = outer

    def give(self, value: Value) -> Value:
        frame: Frame | None = self.frame
        while frame is not None and frame.yields is None:
            frame = frame.around
        if frame is not None:
            here, node = self.frame, self.node
            frame.yields(value)
            self.frame, self.node = here, node
        return NONE

    def _run(self, function: Function, frame: Frame) -> Value:
        code = function.code
        before, node = self.frame, self.node
        deciding, self.deciding = self.deciding, False
        self.frame = frame
        self.entered.append(code)
        self.visited.add(code)
        try:
            if isinstance(code, ast.Lambda):
                return self.evaluate(code.body)
            signal = self.block(code.body)
            result = signal.value if isinstance(signal, Return) else NONE
            for condition, value in reversed(frame.returns):
                result = either(condition, value, result, self)
            return result
        finally:
            self.entered.pop()
            self.frame, self.node = before, node
            self.deciding = deciding

    def _frame_of(self, function: Function, call: Call) -> Frame:
        around = function.frame
        frame = Frame({}, around, around.module or around, function.name, around.file)
        frame.home = function.home or around.home
        frame.receiver = call.args[0] if call.args and function.home else around.receiver
        self._bind(function, call, frame)
        return frame

    def _bind(self, function: Function, call: Call, frame: Frame) -> None:
        spec = self._signature(function.code)
        names, known = spec.names, spec.known
        bound = frame.names
        for name, value in zip(names, call.args, strict=False):
            bound[name] = value
        if spec.vararg:
            rest = call.args[len(names) :]
            bound[spec.vararg] = self.unknown(spec.vararg, *rest) if call.open else Tuple(rest)
        elif len(call.args) > len(names):
            self.doubt("a function is called with more arguments than it takes")
        extra: list[tuple[Value, Value]] = []
        for name, value in call.kwargs.items():
            if name in known:
                bound[name] = value
            else:
                extra.append((Constant(name), value))
        if spec.kwarg:
            made = Dict.of(extra)
            made.open = call.open
            bound[spec.kwarg] = made
        if known.keys() <= bound.keys():
            return
        given = names[len(names) - len(function.defaults) :]
        defaults = dict(zip(given, function.defaults, strict=False)) | function.kw_defaults
        for name in known:
            if name not in bound:
                if name in defaults and not call.open:
                    bound[name] = self.as_window(name, defaults[name])
                else:
                    bound[name] = self.parameter(function, name)

    def _signature(self, code: Code) -> Signature:
        found: Signature | None = self.facts.signatures.get(id(code))
        if found is None:
            found = self.facts.signatures[id(code)] = Signature(code)
        return found

    def parameter(self, function: Function, name: str) -> Unknown:
        """An argument that nobody gave: whoever calls decides, once and for all."""
        line = getattr(function.code, "lineno", 0)
        key = self.facts.key_of(("parameter", function.frame.file, line, name))
        if name in self.facts.counted:
            now = (COUNT, key, self.moment())
            return Unknown(now, name, False, frozenset((COUNT,)), given=True)
        return Unknown(key, name, given=True)

    # -- classes

    def define_class(self, node: ast.ClassDef) -> Value:
        bases = [self.evaluate(base).resolve(self) for base in node.bases]
        made = Class(node, self.frame, bases)
        frame = Frame({}, self.frame, self.frame.module or self.frame, node.name, self.frame.file)
        frame.home = made
        frame.of_class = True
        made.members = frame.names
        outer, self.frame = self.frame, frame
        try:
            self.block(node.body)
        finally:
            self.frame = outer
        result: Value = made
        for expression in reversed(node.decorator_list):
            decorator = self.evaluate(expression)
            result = self.libraries.decorated(self, decorator, result) or result
        return result

    def make_instance(self, cls: Class, call: Call) -> Value:
        special = cls.member("__new__")
        if isinstance(special, Function) and cls.member("__init__") is None:
            whole = Call(self, [cls, *call.args], call.kwargs, open=call.open)
            return self.run_function(special, whole)
        made = Instance(cls, self.count(cls))
        made.given = tuple(call.values())
        made.native = self.libraries.native(self, made, call)
        start = cls.member("__init__")
        if isinstance(start, Function):
            whole = Call(self, [made, *call.args], call.kwargs, open=call.open)
            self.run_function(start, whole)
        elif self._is_record(cls):
            self._fill_record(made, cls, call)
        return made

    def _is_record(self, cls: Class) -> bool:
        for ancestor in cls.ancestors():
            for decorator in ancestor.code.decorator_list:
                node = decorator.func if isinstance(decorator, ast.Call) else decorator
                if _last_word(node) in ("dataclass", "define", "s"):
                    return True
        return self._is_named_tuple(cls)

    def _is_named_tuple(self, cls: Class) -> bool:
        bases = (base for ancestor in cls.ancestors() for base in ancestor.code.bases)
        return any(_last_word(base) == "NamedTuple" for base in bases)

    def _fill_record(self, made: Instance, cls: Class, call: Call) -> None:
        """A dataclass, a NamedTuple: its annotated names are its arguments."""
        names: dict[str, None] = {}
        for ancestor in reversed(cls.ancestors()):
            for statement in ancestor.code.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    names[statement.target.id] = None
        taken = [name for name in names if self.libraries.is_given(cls.member(name))]
        given = dict(zip(taken, call.args, strict=False)) | call.kwargs
        for name in names:
            value = given.get(name) or cls.member(name)
            if value is None:
                value = Unknown(("field", cls.key, name), f"{cls.name}.{name}")
            made.attributes[name] = self.as_window(name, self.libraries.field_default(self, value))
        if self._is_named_tuple(cls):
            made.native = Tuple(list(made.attributes.values()))
        after = cls.member("__post_init__")
        if isinstance(after, Function):
            self.run_function(after, Call(self, [made]))

    def set_up(self, instance: Instance, name: str) -> Value | None:
        """An attribute that another method of the class sets: as if that one had been called."""
        if name in instance.fetching or len(self.entered) >= DEEPEST - 4:
            return None
        if instance.invented:
            self.missed.add(name)
        for cls in instance.cls.ancestors():
            for method in self.facts.setters.get(id(cls.code), {}).get(name, ()):
                member = cls.members.get(method)
                if method == "__init__" or not isinstance(member, Function):
                    continue
                if member.code in self.visited or self._trains(member.code):
                    # The program calls it itself: what it leaves undone is not done elsewhere.
                    continue
                instance.fetching.add(name)
                since = {
                    key: attribute
                    for key, attribute in instance.attributes.items()
                    if not (isinstance(attribute, Constant) and attribute.value is None)
                }
                try:
                    with self._outside(), self.libraries.beforehand(self):
                        self.run_function(member, Call(self, [instance]))
                finally:
                    instance.fetching.discard(name)
                instance.attributes.update(since)
                if name in instance.attributes:
                    return instance.attributes[name]
        return None

    def _trains(self, code: ast.AST) -> bool:
        name = getattr(code, "name", "")
        return name in self.facts.credit_names or name in self.facts.step_names

    # -- iterators

    def rounds_over(self, value: Value) -> Length | None:
        """How long a value is that a loop goes over just now: as many rounds as are rehearsed."""
        for loop in reversed(self.loops):
            if loop.goes_over(value) and loop.rounds:
                return Length(loop.rounds, float(loop.rounds))
        return None

    def next_of(self, value: Value, default: Value | None = None) -> Value:
        """next(value): what a `while` loop asks of an iterator, it goes over."""
        value = value.resolve(self)
        if isinstance(value, Instance):
            found = value.next_element(self)
            if found is not None:
                return found
        known = value.next_known(self)
        if known is not None:
            return known
        if isinstance(value, (Iterated, Generator)):
            over = self.goes_over(value, default is not None)
            value.given += 1
            if over and value.given > self.loops[-1].rounds and default is not None:
                return default
            found = next(iter(value.iterate(self)), default)
            if found is not None:
                self._tells_the_end(found, default)
                return found
            if self.awaiting_ends:
                raise DataEndsError(NONE, self.site())
        return self.unknown(f"next({value.text})", value, element=True, data=True)

    def _tells_the_end(self, element: Value, default: Value | None) -> None:
        """`next(it, None)` gives None where nothing is left, so what it gives before is none."""
        if default is None or element is default or default.is_none(self) is not True:
            return
        empty = element.is_none(self)
        if isinstance(empty, Condition) and self.answered(empty) is None:
            self.learn(empty, False)

    def list_of(self, value: Value) -> List:
        from gradkeeper.lint.interpreter.objects import as_list

        return as_list(self, value.resolve(self))
