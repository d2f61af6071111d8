"""What a run carries with it: how it answers questions, and writes that can be undone.

The base of the machine, and what the machine needs to be told of libraries. The layers above add
expressions, statements and calls, each in a file of its own.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gradkeeper.lint.interpreter.containers import TextMethod
from gradkeeper.lint.interpreter.frames import Frame, Importer, Loop
from gradkeeper.lint.interpreter.objects import Class, Instance
from gradkeeper.lint.interpreter.plan import ENOUGH, Plan, Question, _every, by_chance
from gradkeeper.lint.interpreter.values import (
    NOTHING,
    Call,
    Condition,
    Constant,
    Count,
    Either,
    Length,
    Plain,
    Provenance,
    Test,
    Unknown,
    Value,
)
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.facts import Facts
    from gradkeeper.lint.interpreter.machine import Machine

T = TypeVar("T")
BEFORE_THE_FIRST_LINE = ast.Pass(lineno=1, col_offset=0)
"""Where each run is before its first line: values made there are known by it, in all runs."""
COUNT = "count"
"""A source: the value counts rounds, from where nobody knows."""
CYCLE = "cycle"
"""A source: the remainder of such a count."""
RARE = "rare"
"""A source: that of a division by a known number."""
MOST_EXACT = 12
"""Rounds of a training loop that are all rehearsed, where the program says how many there are."""


class EndedError(Exception):
    """The base of what ends a run before its last line."""


class BudgetSpentError(EndedError):
    """The run has taken more steps than it may."""


class ProgramEndsError(EndedError):
    """sys.exit(), or an exception that nobody catches."""


class LoudError(EndedError):
    """A branch that was taken for irrelevant did something: it has to be followed for itself."""

    def __init__(self, nodes: tuple[ast.AST, ...]) -> None:
        self.nodes = nodes


class RaisedError(Exception):
    """An exception of the program on its way up. `torn`: a backward failed half-way."""

    def __init__(self, value: Value, site: Site) -> None:
        self.value = value
        self.site = site


class DataEndsError(RaisedError):
    """StopIteration, where the program waits for it."""


class Libraries(Protocol):
    """What the machine asks about everything that is not the program's own code."""

    def find(self, m: Machine, name: str) -> Value | None:
        """What a dotted name of a library stands for."""

    def builtin(self, m: Machine, name: str) -> Value | None: ...

    def starred(self, m: Machine, name: str) -> Value | None:
        """What `import *` from a module that is not seen brings by this name."""

    def native(self, m: Machine, instance: Instance, call: Call) -> Value | None:
        """What an object of a class of the program inherits from its libraries."""

    def call_unseen(self, what: Value, call: Call) -> Value: ...

    def call_left_open(self, what: Unknown, call: Call) -> Value:
        """A method that a class leaves to its subclasses, which are not seen."""

    def call_unknown(self, what: Unknown, call: Call) -> Value: ...

    def attribute_of_unknown(self, m: Machine, what: Unknown, name: str) -> Value: ...

    def set_attribute_of_unknown(
        self, m: Machine, what: Unknown, name: str, value: Value
    ) -> None: ...

    def weigh(
        self, m: Machine, made: Unknown, of: Unknown, sign: str, by: Value, *, swapped: bool
    ) -> None:
        """An unknown value was multiplied or divided."""

    def enter_unknown(self, m: Machine, what: Unknown) -> Value: ...

    def escape(self, m: Machine, value: Value) -> None:
        """A value went where it cannot be followed."""

    def fetched(self, m: Machine) -> Provenance:
        """What marks data that was had just now."""

    def used_up(self, m: Machine, value: Value, use: str) -> None:
        """A generator is asked for its elements a second time."""

    def optimizer_in(self, m: Machine, value: Value) -> Value | None:
        """The optimizer that a value is, if the program uses it as one."""

    def decorated(self, m: Machine, decorator: Value, what: Value) -> Value | None:
        """What a decorator of a library makes of a function; None if it is called as usual."""

    def field_default(self, m: Machine, value: Value) -> Value:
        """What a dataclass's `field(default_factory=...)` gives each object."""

    def is_given(self, default: Value | None) -> bool:
        """Whether a dataclass takes a field with this default as an argument."""

    def drive(self, m: Machine, instance: Instance, name: str) -> bool:
        """Calls a method as the framework does that the program hands the object to.

        False: no framework calls it.
        """

    def loop_begins(self, m: Machine, loop: Loop) -> None: ...

    def round_begins(self, m: Machine, loop: Loop, element: Value | None) -> None: ...

    def round_is_of(self, m: Machine, loop: Loop, element: Value | None) -> None:
        """What a loop goes over tells whether its round brings a batch."""

    def loop_ends(self, m: Machine, loop: Loop) -> None: ...

    def default_answer(self, m: Machine, condition: Condition) -> bool | None: ...

    def waits(self, m: Machine) -> bool:
        """Whether gradients wait for a step."""

    def beforehand(self, m: Machine) -> AbstractContextManager[None]:
        """What happens inside happened before the run began."""

    def caught(self, m: Machine) -> None:
        """An exception that was rehearsed on purpose is caught now."""


class State:
    """The part of a machine that has no Python in it yet."""

    # Asked for all the time, in runs too short for Python to learn where a dictionary has them.
    __slots__ = (
        "_fields",
        "_instances",
        "_journal",
        "_met",
        "_parts",
        "_passed",
        "_places",
        "_sites",
        "_speculating",
        "_states",
        "answers",
        "awaiting_ends",
        "budget",
        "calls",
        "catching_errors",
        "closed_gates",
        "consulted",
        "counted_down_from",
        "counts_samples",
        "cut_short",
        "deciding",
        "doubted_under",
        "doubts",
        "entered",
        "equal",
        "facts",
        "fault_due",
        "faults",
        "frame",
        "gating",
        "handed_out",
        "importer",
        "kept",
        "labels",
        "libraries",
        "loops",
        "missed",
        "modules",
        "multiples",
        "node",
        "numbers",
        "opened_gates",
        "operations",
        "period",
        "plan",
        "provided",
        "questions",
        "quietly",
        "reached",
        "serial",
        "short_of",
        "sums",
        "under",
        "visited",
        "whole",
        "widened",
    )

    whole: Machine
    """The machine itself, for the layers below it."""

    def __init__(
        self, plan: Plan, libraries: Libraries, importer: Importer | None, facts: Facts, budget: int
    ) -> None:
        self.whole = self  # type: ignore[assignment]
        self.plan = plan
        self.libraries = libraries
        self.importer = importer
        self.facts = facts
        self.budget = budget
        self.operations = 0
        self.quietly: dict[int, int] = {}
        """By loop that does nothing to gradients: the operations it took so far."""
        self.frame = Frame({}, None, None, "<module>", "")
        self.node: ast.AST = BEFORE_THE_FIRST_LINE
        self.loops: list[Loop] = []
        self.questions: dict[Hashable, Question] = {}
        self.answers: dict[Hashable, bool] = {}
        self.equal: dict[Hashable, Constant | Unknown] = {}
        """Values that were found to equal a constant, or what may be one of a class."""
        self.numbers: dict[Hashable, int] = {}
        self.widened: dict[Hashable, str] = {}
        """Lengths of windows that the program sets to 1, by key, as it calls them."""
        self.counts_samples = False
        """Some of these are for numbers of samples: nobody tells how many batches these are."""
        self.multiples: dict[Hashable, Value] = {}
        """Products of something unknown, by key: what each is a multiple of."""
        self.sums: dict[Hashable, tuple[Value, Plain]] = {}
        """Sums of something unknown and a constant, by key."""
        self.period = 1
        """The longest window that the source itself counts up to."""
        self.short_of = 0
        """Rounds that a loop over most of the data lacks, because the data is cut short."""
        self.doubts: dict[str, None] = {}
        self.entered: list[ast.AST] = []
        self.visited: set[ast.AST] = set()
        self.serial = 0
        self.calls = 0
        """How often somebody who is not seen has called what the rehearsal starts at."""
        self.gating = 0
        """Inside a test that counts up to a number and starts again."""
        self.deciding = False
        """Inside a test on which something loud depends: every open half of it is answered."""
        self._journal: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self._speculating: list[ast.AST] = []
        self._fields: dict[Hashable, dict[str, Value]] = {}
        self._parts: dict[Hashable, dict[Hashable, Value]] = {}
        self._states: dict[type[Any], Any] = {}
        self._sites: dict[tuple[int, str], Site] = {}
        self._instances: dict[int, int] = {}
        """How many objects of each class were made."""
        self._places: dict[Hashable, Hashable] = {}
        self._passed: dict[tuple[str, int], Hashable] = {}
        """By the line of a test: the bound that a counter has passed there."""
        self._met: dict[int, int] = {}
        self.provided: frozenset[str] = frozenset()
        """What the object's own __init__ has set, of the object whose method is rehearsed."""
        self.missed: set[str] = set()
        """Attributes that were asked for and that no __init__ had set."""
        self.modules: set[Hashable] = set()
        """What `import` brought that is not seen."""
        self.consulted: list[Hashable] = []
        """The settings that a test asks for, while it is decided."""
        self.under: list[Hashable] = []
        """Those that have to be as they are for what is being run to be run."""
        self.doubted_under: set[Hashable] = set()
        """Of these, the innermost ones where doubts arose."""
        self.reached: dict[Site, tuple[Hashable, ...]] = {}
        """The same, by where something happened."""
        self.handed_out: dict[int, tuple[Value, int]] = {}
        """By serial number of data: which iterator gave it out, and as which of its elements."""
        self.counted_down_from: set[Hashable] = set()
        """Options that loops count down from: whoever sets them begins above zero."""
        self.closed_gates: set[int] = set()
        self.opened_gates: set[int] = set()
        """Tests, in loops, that kept a step from being come to; and those that let one be."""
        self.cut_short = False
        """Some loop would have run on, or may have."""
        self.faults: dict[Hashable, int] = {}
        """How often each try block was entered."""
        self.fault_due: ast.AST | None = None
        self.awaiting_ends = 0
        """Inside so many `try` blocks that wait for StopIteration."""
        self.catching_errors = 0
        """Inside so many of a training loop that catch what PyTorch raises."""
        self.labels: dict[Hashable, str] = {}
        """The variables that unknown values were first assigned to."""
        self.kept: list[object] = []
        """Keeps alive what is known by its id."""

    def let_go(self) -> None:
        """The run is over: what it held is freed at once, not by a search for cycles."""
        for name in State.__slots__:
            delattr(self, name)

    # -- where we are

    def spend(self) -> None:
        self.operations += 1
        if self.operations > self.budget:
            raise BudgetSpentError

    def site(self, node: ast.AST | None = None) -> Site:
        if node is None:
            node = self.node
        key = (id(node), self.frame.function)
        found = self._sites.get(key)
        if found is None:
            column = getattr(node, "col_offset", 0) + 1
            line = getattr(node, "lineno", 1)
            found = Site(self.frame.file, line, column, self.frame.function)
            self._sites[key] = found
        return found

    def state(self, kind: type[T]) -> T:
        """The one object of this kind that a library keeps for the run."""
        try:
            return self._states[kind]  # type: ignore[no-any-return]
        except KeyError:
            made = self._states[kind] = kind()
            return made

    def doubt(self, why: str) -> None:
        if self.under and why not in self.doubts:
            self.doubted_under.add(self.under[-1])
        self.doubts[why] = None

    def shortened(self, count: int) -> int:
        """So many of a known number of rounds that the end falls as it would."""
        if count <= max(self.plan.rounds, MOST_EXACT):
            return count
        window = max(self.plan.window, self.period)
        return self.plan.rounds if window == 1 else 2 * window + count % window

    def fetches(self, loop: Loop) -> bool:
        """Whether each of its rounds is given data of its own."""
        if loop.kind == "batches":
            return True
        return id(loop.node) in self.facts.feeds and not self._hands_out(loop.node)

    def _hands_out(self, node: ast.AST) -> bool:
        """What the loop is over is more than data: networks, or their optimizers."""
        target = getattr(node, "target", None)
        uses = self.facts.uses
        return target is not None and any(
            isinstance(part, ast.Name) and not uses.get(part.id, set()).isdisjoint(OF_OBJECTS)
            for part in ast.walk(target)
        )

    # -- unknown values

    def unknown(
        self,
        text: str,
        *made_of: Value,
        part: bool = False,
        element: bool = False,
        data: bool = False,
        fixed: bool | None = None,
        counts: bool = False,
        computed: bool = False,
    ) -> Unknown:
        """A value that the source does not tell, with what it was made of.

        `part`: it belongs to the first of these, and is the same whenever it is asked for.
        `counts`: a loop counts it up. `computed`: nothing but these tells what it is, so that of
        equal ones it is made again.
        """
        sources = NOTHING
        settled = not element
        fetched = bool(made_of)
        for origin in made_of:
            if type(origin) is Constant:
                continue  # it adds nothing to what is known of the others
            if type(origin) is Unknown:  # as most are, and most of what is made is made here
                more = origin._sources
                fetched = fetched and origin.data
            else:
                more = origin.sources()
                fetched = fetched and _is_data(origin)
            if more:
                sources = sources | more if sources else more
            settled = settled and origin.fixed
        if fixed is not None:
            settled = fixed
        key: Hashable
        if settled and (made_of or part):
            key = self.facts.key_of(
                ("made", text, *[self.lasting_key(origin) for origin in made_of])
            )
        elif settled and not self.loops:
            key = self.facts.key_of(("made", text, id(self.node)))
        elif computed:
            key = self.facts.key_of(("made", text, *[origin.key for origin in made_of]))
        else:
            settled = False
            self.serial += 1
            key = ("new", self.serial)
        if counts:
            sources |= {COUNT}
        if data and self.loops:
            sources |= self.libraries.fetched(self.whole)
        return Unknown(key, text[:200], settled, sources, data or fetched)

    def count(self, cls: Class) -> int:
        """The number of one more object of a class."""
        number = self._instances.get(id(cls.code), 0)
        self._instances[id(cls.code)] = number + 1
        return number

    def lasting_key(self, value: Value) -> Hashable:
        """A value's key, made such that the next run finds the same one again."""
        key = value.key
        if type(key) is int:
            return key
        return self._lasting(key, value)

    def _lasting(self, key: Hashable, value: Value) -> Hashable:
        """Objects are known by where they were first asked about, not by where memory has them."""
        if type(key) is not tuple or key[0] == "constant":
            return key
        if key[0] not in OF_ONE_RUN:
            return tuple([self._lasting(part, value) for part in key])
        found = self._places.get(key)
        if found is None:
            node = id(self.node)
            count = self._met[node] = self._met.get(node, 0) + 1
            found = self._places[key] = (key[0], node, count)
            self.kept.append(value)
        return found

    def written(self, value: Value) -> str:
        """How a value is spoken of: a sum that grows with each round is still one variable."""
        return value.text if value.fixed else self.labels.get(value.key, value.text)

    def method_of_text(self, text: Constant, name: str) -> Value:
        return TextMethod(text, name)

    def attribute_of(self, value: Value, name: str) -> Value:
        """An attribute that was set before, or something unknown that stays the same."""
        fields = self.attributes_of(value)
        found = fields.get(name)
        counts = name in self.facts.counted
        if found is None or (counts and self._has_counted_on(found)):
            made = found = self.unknown(f"{value.text}.{name}", value, part=True)
            if counts:
                key = (COUNT, made.key, self.moment())
                found = Unknown(key, made.text, False, made.sources() | {COUNT}, made.data)
            found.of = value
            found.name = name
            found.given = isinstance(value, Unknown) and value.given
            if found.fixed or counts or not isinstance(value, Unknown):
                fields[name] = found
        return found

    def hands_out(self, of: Value, since: int) -> None:
        """What was made since then is one element of an iterator, which other data follows."""
        for serial in range(since + 1, self.serial + 1):
            self.handed_out[serial] = (of, since)

    def _has_counted_on(self, value: Value) -> bool:
        """A counter out of sight, of which a later round finds another number."""
        key = value.key
        return isinstance(key, tuple) and key[0] == COUNT and key[2] != self.moment()

    def moment(self) -> tuple[int, ...]:
        """Which round this is, of every loop, and of whoever calls."""
        return (self.calls, *[loop.index for loop in self.loops])

    def attributes_of(self, value: Value) -> dict[str, Value]:
        found = self._fields.get(value.key)
        if found is None:
            found = self._fields[value.key] = {}
            self.kept.append(value)
        return found

    def items_of(self, value: Value) -> dict[Hashable, Value]:
        return self._parts.setdefault(value.key, {})

    def escape(self, value: Value) -> None:
        self.libraries.escape(self, value)  # type: ignore[arg-type]

    # -- numbers

    def number(self, value: Value) -> int:
        """What stands for an unknown number that counts the micro-batches of a window."""
        found = self.numbers.get(value.key)
        if found is None:
            found = self.numbers[value.key] = self.plan.window
            self.kept.append(value)
        return found

    def keep_product(self, made: Value, *factors: Value) -> None:
        """`steps * accumulation`: so many rounds fill whole windows."""
        for factor in factors:
            known = isinstance(factor, Constant) and type(factor.value) is int
            if (
                known
                or self.is_numbered(factor)
                or (isinstance(factor, Unknown) and self.is_size(factor))
            ):
                self.multiples[made.key] = factor

    def keep_sum(self, made: Value, of: Value, added: Value) -> None:
        """`steps + 1`, for whoever takes it away again."""
        if isinstance(added, Constant):
            self.sums[made.key] = (of, added.value)

    def less(self, value: Value, number: int) -> Value:
        """`value - number`."""
        whole, added = self.sums.get(value.key, (value, None))
        return whole if added == number else value.operate(self.whole, "-", Constant(number))

    def whole_windows(self, rounds: int, number: Value) -> int:
        """As many rounds at least, and a multiple of what the number is a multiple of."""
        size = self.multiples.get(number.key)
        if size is None:
            return rounds
        if size.fixed:
            each = self.known_number(size) or self.number(size)
        else:
            each = _every(self.plan)
        return rounds + -rounds % int(each) if 1 < each <= LONGEST_WINDOW else rounds

    def is_size(self, value: Unknown) -> bool:
        """The program counts micro-batches up to it somewhere: `if accumulation_steps > 1`."""
        name = value.name or self.labels.get(value.key, value.text)
        return name in self.facts.sizes

    def is_numbered(self, value: Value) -> bool:
        return value.key in self.numbers

    def known_number(self, value: Value) -> float | None:
        if isinstance(value, Constant):
            number = value.value
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                return number
            return None
        return self.numbers.get(value.key)

    def saw_period(self, period: Plain) -> None:
        if isinstance(period, (int, float)) and 1 < period <= LONGEST_WINDOW:
            if id(self.node) in self.facts.periods:
                self.period = max(self.period, math.ceil(period))

    def shorter_period(self, every: Plain, reach: float) -> Plain:
        """Of a test that decides about no gradients, but may save (`step % 1000 == 0`): one within
        the rounds that are rehearsed, which falls on the same places of windows that are known."""
        window = self.period
        far = type(every) is int and every > max(reach, 2 * window)
        if not far or window == 1 or id(self.node) not in self.facts.asides:
            return every
        return window + every % window  # type: ignore[operator]

    def counts_up_to(self, bound: float) -> None:
        """A counter is compared with a number: where it starts again then, windows are as long."""
        if self.gating and 1 < bound <= LONGEST_WINDOW:
            self.period = max(self.period, math.ceil(bound))

    def passes(self, left: float) -> None:
        """A counter passes a number when so many rounds are left: too few to see what comes then,
        where the loop is cut short for no other reason."""
        loop = self.loops[-1] if self.loops and not self.gating else None
        if loop is not None and loop.kind == "batches" and not loop.exact and 0 <= left < FEW:
            self.short_of = max(self.short_of, ENOUGH - int(left))

    def takes_at_once(self, number: int) -> None:
        """In a loop, so many of what an iterator has left: windows are as long."""
        if self.loops and 1 < number <= LONGEST_WINDOW:
            self.period = max(self.period, number)

    def round_number(self, place: int, of: Value) -> Constant:
        """The number of a round: of a loop that was cut short, one that would go on."""
        for loop in reversed(self.loops):
            if loop.goes_over(of):
                if loop.exact:
                    return Constant(place)
                if loop.total is not None and place + 1 == loop.rounds:
                    # The last round that is rehearsed stands for the last one there is.
                    return Constant(loop.total - 1)
                end = None if loop.total is None else float(loop.total - 1)
                return Count(place, float(loop.rounds), end)
        return Constant(place)

    def counted(self, number: Constant) -> Constant:
        """A number that a loop counts up, of which the rehearsal sees the beginning only."""
        loop = self.loops[-1] if self.loops else None
        if loop is None or isinstance(number, Count) or not isinstance(number.value, int):
            return number
        if isinstance(number.value, bool) or all(around.exact for around in self.loops):
            return number
        limit = 1
        for around in self.loops:
            limit *= max(1, around.rounds)
        return Count(number.value, float(limit))

    def counting(self, value: Value) -> Value:
        """A number that a loop changes, begun nobody knows where: no setting any longer."""
        if isinstance(value, Either):
            return value.map(self.whole, self.counting)
        if isinstance(value, Constant):
            return self.counted(value)
        if not self.loops or not isinstance(value, Unknown):
            return value
        self.serial += 1
        sources = value.sources() | {COUNT}
        return Unknown(("new", self.serial), value.text, False, sources)

    def opens_gate(self, sign: str, number: Value) -> bool:
        """The remainder of this number decides, in a loop, about something that matters."""
        if sign != "%" or not self.loops or id(self.node) not in self.facts.gates:
            return False
        return isinstance(number, Constant) and type(number.value) is int

    def remainder(self, left: Value, right: Value) -> Value:
        """`left % right` with an unknown operand: where something depends on it, it counts."""
        if isinstance(left, Constant) and left.value == 0 and not isinstance(left.value, bool):
            return Constant(0)
        text = f"{self.written(left)} % {self.written(right)}"
        gate = id(self.node) in self.facts.gates and isinstance(left, Unknown)
        made = self.unknown(text, left, right, fixed=False if gate else None, computed=True)
        if made.fixed or not (gate or isinstance(left, Count) or COUNT in made.sources()):
            return made
        sources = made.sources() | {COUNT, CYCLE}
        period = right.value if isinstance(right, Constant) else self.numbers.get(right.key)
        if isinstance(period, int) and period > 1:
            sources |= {RARE}
        return Unknown(made.key, made.text, False, sources)

    # -- questions

    def answered(self, condition: Condition) -> bool | None:
        known = self._known(condition)
        return None if known is None else known != condition.negated

    def consult(self, condition: Condition) -> None:
        if condition.fixed:
            self.consulted.append(self._question_key(condition))

    def reach(self, site: Site) -> None:
        """Something happens here, under the settings that led here."""
        before = self.reached.get(site)
        if before is None:
            self.reached[site] = tuple(self.under)
        elif before:
            self.reached[site] = tuple(patched for patched in before if patched in self.under)

    def counts(self, value: Value) -> bool:
        """It grows with the rounds, known or not."""
        return isinstance(value, Count) or _counts(value)

    def comes_to(self, condition: Condition) -> bool:
        """A counter will equal this number one day; the amount of data does or does not."""
        return any(
            self.counts(operand) and type(operand) is not Length for operand in condition.operands()
        )

    def _known(self, condition: Condition) -> bool | None:
        """An answer given before. What equals one constant equals no other."""
        known = self.answers.get(condition.key)
        if known is None and condition.sign == "==" and condition.right is not None:
            same = self.equal.get(condition.left.key)
            if same is not None and _are_two(same, condition.right):
                return False
        return known

    def learn(self, condition: Condition, answer: bool) -> None:
        """The program itself makes sure of it: else it would raise."""
        self._remember(condition, answer != condition.negated)

    def _remember(self, condition: Condition, known: bool) -> None:
        self.answers[condition.key] = known
        self.kept.append(condition)
        if known and condition.sign == "==":
            if isinstance(condition.right, Constant):
                self.equal[condition.left.key] = condition.right
            elif isinstance(condition.right, Unknown):
                self.equal.setdefault(condition.left.key, condition.right)

    def ask(self, condition: Condition, *, prefer: bool | None = None) -> bool:
        """The answer of the plan; `prefer`: the one that a run would rather begin with."""
        self.consult(condition)
        known = self._known(condition)
        if known is None:
            known = self._decide(condition, prefer)
            self._remember(condition, known)
        return known != condition.negated

    def _decide(self, condition: Condition, prefer: bool | None) -> bool:
        """The plan's answer to a condition, its negation aside."""
        fixed = condition.fixed
        line = getattr(self.node, "lineno", 0)
        key = (
            self._question_key(condition)
            if fixed
            else (self.frame.file, line, self._asked(condition))
        )
        question = self.questions.get(key)
        if question is None:
            plain = Condition(condition.sign, condition.left, condition.right)
            default = self.libraries.default_answer(self, plain)  # type: ignore[arg-type]
            answer = condition.sign != "is" if default is None else default
            # Asked as written: `if not x` is answered so that its body runs.
            if default is None and condition.negated and condition.sign != "is":
                answer = False
            if prefer is not None and not (default is not None and not fixed):
                answer = prefer != condition.negated
            question = Question(plain, key, fixed, answer, line=line)
            self.questions[key] = question
            if fixed:
                question.answer = self.plan.settings.get(key, self.plan.first.get(key, answer))
        question.times += 1
        if fixed:
            return question.answer
        if not question.periodic:
            self._note_rhythm(question, condition)
        mode = self.plan.chance.get(key)
        if question.bound and mode is None:
            return self._up_to_bound(question, condition)
        late = question.times > self.plan.rounds or self._in_a_later_epoch()
        waiting = mode == "while waiting" and self.libraries.waits(self.whole)
        return by_chance(mode, question, self.plan, late=late, waiting=waiting)

    def _in_a_later_epoch(self) -> bool:
        """A counter of epochs is asked about but once in each."""
        return bool(self.loops) and self.loops[0].kind == "outer" and self.loops[0].index > 0

    def _up_to_bound(self, question: Question, condition: Condition) -> bool:
        """A bound that was moved on when the counter passed it is not passed again at once."""
        passing = condition.right is not None and self.counts(condition.right)
        place = (self.frame.file, question.line)
        before = self._passed.get(place)
        if before is not None and before != question.key:
            return not passing
        if question.answer == passing:
            self._passed[place] = question.key
        return question.answer

    def _question_key(self, condition: Condition) -> Hashable:
        right = condition.right
        return (
            condition.sign,
            self.lasting_key(condition.left),
            None if right is None else self.lasting_key(right),
        )

    def _note_rhythm(self, question: Question, condition: Condition) -> None:
        """How a question about a counter is answered from round to round."""
        sources = condition.left.sources() if condition.sign == "==" else NOTHING
        question.rare = RARE in sources
        question.periodic = CYCLE in sources
        counts = any(self.counts(operand) for operand in condition.operands())
        question.once = (
            condition.sign == "==" and not question.periodic and self.comes_to(condition)
        )
        question.bound = condition.sign == "<" and counts
        question.rises = condition.right is not None and self.counts(condition.right)

    def _asked(self, condition: Condition) -> str:
        """The words of a question of chance, the same in every round."""
        operands = [self.written(operand) for operand in condition.operands()]
        return f" {condition.sign} ".join(operands)

    # -- writing, so that it can be undone

    def write(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        if self._journal is not None:
            self._journal.append((table, key, table.get(key, MISSING)))
        table[key] = value

    @contextmanager
    def speculation(self, node: ast.AST) -> Iterator[list[tuple[dict[Any, Any], Any, Any]]]:
        """Writes of a branch whose condition stays open, to be merged by whoever asked."""
        outer = self._journal
        journal: list[tuple[dict[Any, Any], Any, Any]] = []
        self._journal = journal
        self._speculating.append(node)
        try:
            yield journal
        finally:
            self._journal = outer
            self._speculating.pop()
            if outer is not None:
                outer.extend(journal)

    @property
    def half_taken(self) -> bool:
        """Inside a branch whose condition stays open."""
        return bool(self._speculating)

    def must_be_sure(self) -> None:
        """Something happens that cannot be undone: no branch may be half-taken here."""
        if self._speculating:
            raise LoudError(tuple(self._speculating))


def _is_data(value: Value) -> bool:
    if isinstance(value, Unknown):
        return value.data
    if isinstance(value, Test):
        return all(_is_data(operand) for operand in value.condition.operands())
    return isinstance(value, Constant)


def _are_two(value: Value, other: Value) -> bool:
    """Two constants, or two attributes of one thing, as members of an enumeration are."""
    if isinstance(value, Constant):
        return isinstance(other, Constant) and value.value != other.value
    if not isinstance(value, Unknown) or not isinstance(other, Unknown):
        return False
    if value.of is None or other.of is None or value.of.key != other.of.key:
        return False
    return bool(value.name and other.name) and value.name != other.name


def _counts(value: Value) -> bool:
    return isinstance(value, Unknown) and not value.fixed and COUNT in value.sources()


class _Missing:
    pass


MISSING = _Missing()
OF_ONE_RUN = frozenset({"object", "function", "builtin", "optimizer"})
"""Kinds of keys that hold the address of something in memory."""
FEW = 2
"""Rounds that do not tell what is done in each."""
LONGEST_WINDOW = 128
OF_OBJECTS = frozenset(("step", "zero_grad", "parameters", "train", "eval"))
