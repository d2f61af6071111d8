"""Statements: what a block does, and which way it leaves."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.expressions import SIGNS, Expressions
from gradkeeper.lint.interpreter.facts import loop_kind
from gradkeeper.lint.interpreter.frames import Import, Loop
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Class,
    Enumerated,
    Generator,
    Iterated,
    Zipped,
)
from gradkeeper.lint.interpreter.plan import ENOUGH
from gradkeeper.lint.interpreter.state import (
    MISSING,
    BudgetSpentError,
    DataEndsError,
    ProgramEndsError,
    RaisedError,
)
from gradkeeper.lint.interpreter.syntax import last_name
from gradkeeper.lint.interpreter.values import (
    NONE,
    TURN,
    Condition,
    Constant,
    Count,
    Samples,
    Unknown,
    Value,
    either,
)

MOST_QUIET = 16
"""Rounds of a known loop that does nothing to gradients."""
QUIETLY = 2_000
"""Operations after which such a loop has no further round."""
QUIETLY_IN_ALL = 5_000
"""Operations, each time that it was run taken together, after which it has one round only."""
EPOCHS = 2
WINDOWS = 3
"""Rounds of a loop that steps once for each loop inside it, or has a backward beside them."""
MOST_WHILE = 64
SHORT_WINDOW = 8
"""Micro-batches, at most, for which an epoch more is rehearsed to see how the last one ends."""


@dataclass(slots=True)
class Return:
    value: Value


class Jump:
    pass


BREAK = Jump()
CONTINUE = Jump()
Signal = Jump | Return | None
Handler = Callable[[Any, Any], Signal]


class Statements(Expressions):
    """The part of a machine that executes."""

    __slots__ = ()

    def block(self, statements: list[ast.stmt]) -> Signal:
        blocks = self.facts.blocks
        known = blocks.get(id(statements))
        if known is None or known[0] is not statements:
            known = blocks[id(statements)] = (statements, self._worth_running(statements))
        for statement, handler in known[1]:
            self.operations += 1
            if self.operations > self.budget:
                raise BudgetSpentError
            self.node = statement
            signal = handler(self, statement)
            if signal is not None:
                return signal
        return None

    def _worth_running(self, statements: list[ast.stmt]) -> list[tuple[ast.stmt, Handler]]:
        """The statements of a block that matter, with what runs them."""
        skipped = self.facts.skipped
        return [
            (statement, HANDLERS[type(statement)])
            for statement in statements
            if id(statement) not in skipped and type(statement) in HANDLERS
        ]

    # -- assignments

    def _expression(self, node: ast.Expr) -> Signal:
        if isinstance(node.value, ast.Constant) or self._is_never_asked(node.value):
            return None
        try:
            self.evaluate(node.value)
        except ProgramEndsError:
            returned = self._returned()
            if returned is None:
                raise
            return returned
        return None

    def _is_never_asked(self, node: ast.expr) -> bool:
        """A generator or map(...) that nobody goes through does nothing."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id == "map" and isinstance(self.evaluate(node.func), BuiltIn)
        return isinstance(node, ast.GeneratorExp)

    def _assign(self, node: ast.Assign) -> Signal:
        value = self.evaluate(node.value)
        self.node = node
        if self.loops and type(node.value) is ast.BinOp and _moves_on(node, node.value):
            value = self.counting(value)
        for target in node.targets:
            self.assign(target, value)
        return None

    def _annotated(self, node: ast.AnnAssign) -> Signal:
        if node.value is not None:
            value = self.evaluate(node.value)
            if self.frame.of_class and _stands_for_another(node, value):
                value = self.unknown(node.target.id)  # type: ignore[union-attr]
            self.assign(node.target, value)
        return None

    def _augmented(self, node: ast.AugAssign) -> Signal:
        old = self.evaluate(node.target)
        change = self.evaluate(node.value)
        self.node = node
        sign = SIGNS[type(node.op)]
        if isinstance(old, List) and sign == "+":
            self.call(old.attribute(self.whole, "extend"), change)
            return None
        new = old.augment(self.whole, sign, change)
        if sign == "+" and last_name(node.target) in self.facts.set_back:
            new = self._more_samples(old, change) or new
        if new is None:
            new = self.combine(sign, old, change)
            if isinstance(new, Constant):
                new = self.counted(new)
                if sign == "+" and isinstance(change, Constant) and type(change.value) is int:
                    new = new.paced(max(1, change.value))  # `seen += 16`: samples, not batches
            elif isinstance(change, Constant) and isinstance(change.value, (int, float)):
                if self.loops and sign == "-" and old.fixed:
                    self.counted_down_from.add(old.key)
                new = self.counting(new)
        self.assign(node.target, new)
        return None

    def _more_samples(self, seen: Value, batch: Value) -> Value | None:
        """`seen += len(x)`, where windows are full after so many samples."""
        if not isinstance(batch, Unknown) or not batch.data or not isinstance(seen, Constant):
            return None
        if type(seen.value) is not int or not (isinstance(seen, Samples) or seen.value == 0):
            return None
        return Samples(seen.value + 1, float(MOST_WHILE))

    def assign(self, target: ast.expr, value: Value) -> None:
        if type(target) is ast.Name:
            name = target.id
            if name in self.facts.window_names:
                value = self.as_window(name, value)
            value.named(self.whole, name)
            frame = self.frame
            self.write(frame.owner_of(name) if frame.outer else frame.names, name, value)
            return
        match target:
            case ast.Attribute():
                of = self.evaluate(target.value)
                value = self.as_window(target.attr, value)
                value.named(self.whole, target.attr)
                before, self.node = self.node, target
                of.set_attribute(self.whole, target.attr, value)
                self.node = before
            case ast.Subscript():
                of = self.evaluate(target.value)
                key = self.evaluate(target.slice)
                before, self.node = self.node, target
                of.set_item(self.whole, key, value)
                self.node = before
                if isinstance(key, Constant) and isinstance(key.value, str):
                    value.named(self.whole, key.value)
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, value)
            case ast.Starred():
                self.assign(target.value, value)

    def as_window(self, name: str, value: Value) -> Value:
        """`accumulation_steps = 1` is one setting among others, where windows are counted by it."""
        if name in self.facts.window_names and isinstance(value, Constant):
            if type(value.value) is int and value.value == 1 and value.reach is None:
                key = self.facts.key_of(("window", self.frame.file, name))
                self.widened[key] = name
                return Unknown(key, name)
        return value

    def _unpack(self, targets: list[ast.expr], value: Value) -> None:
        value = value.resolve(self.whole)
        count = len(targets)
        star = next(
            (n for n, element in enumerate(targets) if isinstance(element, ast.Starred)), None
        )
        parts: list[Value] = []
        if isinstance(value, (Tuple, List)) and not (isinstance(value, List) and value.open):
            parts = list(value.values)
        elif isinstance(value, Dict):
            parts = value.elements()
        elif not isinstance(value, Unknown) and not value.endless():
            parts = list(value.iterate(self.whole))[: count + 8]
        if star is not None and len(parts) >= count - 1:
            rest = len(parts) - (count - 1)
            parts[star : star + rest] = [List(parts[star : star + rest])]
        if len(parts) != count:
            parts = [value.item(self.whole, Constant(place)) for place in range(count)]
        for target, part in zip(targets, parts, strict=True):
            self.assign(target, part)

    def _delete(self, node: ast.Delete) -> Signal:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                of = self.evaluate(target.value)
                of.delete_attribute(self.whole, target.attr)
        return None

    # -- branches

    def _if(self, node: ast.If) -> Signal:
        facts = self.facts
        loud = id(node) in facts.loud or (id(node) in facts.jumps and self._leaves_loudly())
        gate = id(node) in facts.counters
        self.gating += gate
        asked, outer = len(self.consulted), len(self.under)
        try:
            answer = self.truth_of(node.test, loud=loud)
        finally:
            self.gating -= gate
        taken = self.facts.only_ways.get(id(node))
        if taken is not None:
            # Nobody trains by way of an exception, whatever the numbers say that were assumed.
            if isinstance(answer, Condition) and self.answered(answer) is None:
                self.learn(answer, taken)
            return self.block(node.body if taken else node.orelse)
        open_test = answer
        if isinstance(answer, Condition):
            known = self.answered(answer)
            if known is not None:
                self.consult(answer)
                answer = known
            elif loud:
                self.node = node
                answer = self.ask(answer, prefer=self._goes_on(node))
            else:
                return self._both(node, answer)
        closes = self.loops and (id(node), not answer) in self.facts.steps_if
        if closes and not _is_setting(open_test):
            self.closed_gates.add(id(node))
        elif (id(node), answer) in self.facts.steps_if:
            self.opened_gates.add(id(node))
        self.under += self.consulted[asked:]
        del self.consulted[asked:]
        try:
            return self.block(node.body if answer else node.orelse)
        finally:
            del self.under[outer:]

    def _goes_on(self, node: ast.If) -> bool | None:
        """The answer that goes on, or gives what a function is called for: what falls off its end
        and did nothing gives nothing."""
        stays = _stays(node)
        if stays is None or not self.entered or not _ends(self.entered[-1], node):
            return stays
        staying, leaving = (node.body, node.orelse) if stays else (node.orelse, node.body)
        last = leaving[-1]
        gives = isinstance(last, ast.Return) and last.value is not None
        return stays != (gives and not any(map(self.facts.is_loud, staying)))

    def _leaves_loudly(self) -> bool:
        """A branch that leaves skips the rest of a loop or function that does something."""
        if self.loops and self.facts.is_loud(self.loops[-1].node):
            return True
        return bool(self.entered) and self.facts.is_loud(self.entered[-1])

    def _both(self, node: ast.If, condition: Condition) -> Signal:
        """A branch that does nothing to gradients: both sides are run, and their values joined."""
        with self.speculation(node) as written:
            signal = self.block(node.body)
        yes = self._undo(written)
        other: Signal = None
        no: dict[Any, Any] = {}
        if node.orelse:
            with self.speculation(node) as written:
                other = self.block(node.orelse)
            no = self._undo(written)
        for key in dict.fromkeys([*yes, *no]):
            table, name, old = (yes.get(key) or no[key])[:3]
            first = yes[key][3] if key in yes else old
            second = no[key][3] if key in no else old
            self._merge(table, name, condition, first, second)
        if isinstance(signal, Return) and isinstance(other, Return):
            return Return(either(condition, signal.value, other.value, self.whole))
        for way, test in ((signal, condition), (other, condition.negate())):
            if isinstance(way, Return):
                self.frame.returns.append((test, way.value))
        return None

    def _undo(self, written: list[tuple[dict[Any, Any], Any, Any]]) -> dict[Any, Any]:
        """Takes back what a branch wrote; by place: the table, the name, what was, what came."""
        found: dict[Any, tuple[Any, Any, Any, Any]] = {}
        for table, name, old in written:
            key = (id(table), name)
            first = found[key][2] if key in found else old
            found[key] = (table, name, first, table.get(name, MISSING))
        for table, name, old, _ in found.values():
            if old is MISSING:
                table.pop(name, None)
            else:
                table[name] = old
        return found

    def _merge(
        self, table: dict[Any, Any], name: Any, condition: Condition, yes: Any, no: Any
    ) -> None:
        if yes is MISSING and no is MISSING:
            return  # what a branch has put there, it has taken away again
        if yes is MISSING or no is MISSING:
            self.write(table, name, no if yes is MISSING else yes)
        elif isinstance(yes, Value) and isinstance(no, Value):
            self.write(table, name, either(condition, yes, no, self.whole))
        elif isinstance(yes, Import) or isinstance(no, Import):
            # One name from one of two modules, which were not run yet: the first stands for both.
            self.write(table, name, yes)
        elif isinstance(yes, tuple) and isinstance(no, tuple):
            self.write(table, name, (yes[0], either(condition, yes[1], no[1], self.whole)))

    def _match(self, node: ast.Match) -> Signal:
        subject = self.evaluate(node.subject)
        for case in node.cases:
            answer = self._matches(case.pattern, subject)
            if isinstance(answer, Condition):
                known = self.answered(answer)
                answer = self.ask(answer) if known is None else known
            if answer and case.guard is not None:
                guard = self.truth_of(case.guard, loud=True)
                answer = self.ask(guard) if isinstance(guard, Condition) else guard
            if answer:
                return self.block(case.body)
        return None

    def _matches(self, pattern: ast.pattern, subject: Value) -> bool | Condition:
        m = self.whole
        match pattern:
            case ast.MatchValue():
                return subject.equals(m, self.evaluate(pattern.value))
            case ast.MatchSingleton():
                if pattern.value is None:
                    return subject.is_none(m)
                return subject.equals(m, Constant(pattern.value))
            case ast.MatchAs():
                answer = self._matches(pattern.pattern, subject) if pattern.pattern else True
                if pattern.name and answer is not False:
                    self.write(self.frame.names, pattern.name, subject)
                return answer
            case ast.MatchOr():
                answers = [self._matches(part, subject) for part in pattern.patterns]
                if True in answers:
                    return True
                unanswered = [answer for answer in answers if isinstance(answer, Condition)]
                return unanswered[0] if unanswered else False
            case ast.MatchSequence():
                for place, part in enumerate(pattern.patterns):
                    self._matches(part, subject.item(m, Constant(place)))
                return True
            case _:
                return Condition("", self.unknown(f"case {pattern.lineno}", subject))

    # -- loops

    def _for(self, node: ast.For | ast.AsyncFor) -> Signal:
        iterable = self.evaluate(node.iter).resolve(self.whole)
        kind = loop_kind(self.facts, node)
        loop = self._loop(node, kind, iterable)
        signals: list[Signal] = []

        stopped = False

        def each(element: Value) -> bool:
            nonlocal stopped
            if loop.index >= loop.rounds:
                stopped = True
                return True
            if self._is_costly(loop, begun):
                loop.exact, loop.given_up = False, True
                return True
            self.spend()
            self.node = node
            self.libraries.round_begins(self.whole, loop, element)
            frame, self.frame = self.frame, home
            self.assign(node.target, element)
            signal = self.block(node.body)
            self.frame = frame
            loop.next_round(self.serial)
            if signal is BREAK or isinstance(signal, Return):
                signals.append(signal)
                return True
            return False

        home, begun = self.frame, self.operations
        before = dict(home.names) if kind == "quiet" else {}
        cut_short, self.cut_short = self.cut_short, False
        self.libraries.loop_begins(self.whole, loop)
        self.loops.append(loop)
        try:
            iterable.for_each(self.whole, each)
        finally:
            self.frame = home
            self.loops.remove(loop)
        self._note_cost(loop, begun)
        self.node = node
        handed_out = loop.total is None and not iterable.endless() and not stopped
        loop.ended = handed_out and not self.cut_short
        self.cut_short = cut_short or self.cut_short or not (loop.exact or handed_out)
        self.libraries.loop_ends(self.whole, loop)
        if kind == "quiet" and not loop.exact:
            self._forget_counters(before)
        if signals and isinstance(signals[0], Return):
            return signals[0]
        if not signals and node.orelse:
            return self.block(node.orelse)
        return None

    def _is_costly(self, loop: Loop, begun: int) -> bool:
        """A loop that does nothing to gradients, filling a buffer, say, has gone on for long."""
        if loop.kind != "quiet" or not loop.index or id(loop.node) in self.facts.yielding:
            return False
        spent = self.operations - begun
        if loop.index > 1 and spent > QUIETLY:
            return True
        return self.quietly.get(id(loop.node), 0) + spent > QUIETLY_IN_ALL

    def _note_cost(self, loop: Loop, begun: int) -> None:
        if loop.kind == "quiet":
            before = self.quietly.get(id(loop.node), 0)
            self.quietly[id(loop.node)] = before + self.operations - begun

    def _forget_counters(self, before: dict[str, Value]) -> None:
        """Numbers that a loop of unknown length has changed are not known after it."""
        for name, value in list(self.frame.names.items()):
            if isinstance(value, Constant) and isinstance(value.value, (int, float)):
                if before.get(name) is not value and not isinstance(value.value, bool):
                    self.write(self.frame.names, name, self.unknown(name))

    def _loop(self, node: ast.AST, kind: str, iterable: Value) -> Loop:
        loop = Loop(node, kind, 0, False, site=self.site(node), iterable=iterable)  # type: ignore[arg-type]
        self._measure(loop, iterable)
        return loop

    def _measure(self, loop: Loop, iterable: Value) -> None:
        """How many rounds a loop over this has, and how many of them are rehearsed."""
        count = loop.total = self._count(iterable)
        loop.rounds, loop.exact = self._rounds(loop.node, loop.kind, iterable, count)
        if loop.exact and isinstance(iterable.length(self.whole), Count):
            loop.exact = False
        window = max(self.plan.window, self.period)
        if loop.kind == "outer" and count is not None and not loop.exact:
            if 1 < window <= SHORT_WINDOW:
                loop.rounds += (count - loop.rounds) % window
                loop.ends_alike = True

    def _count(self, iterable: Value) -> int | None:
        """How many rounds the source tells of."""
        if isinstance(iterable, (Unknown, Generator)):
            return None
        if isinstance(iterable, Iterated):
            return None
        if iterable.endless():
            return None
        number = iterable.length(self.whole)
        if isinstance(number, Constant) and isinstance(number.value, int):
            return number.value
        return None

    def _rounds(
        self, node: ast.AST, kind: str, iterable: Value, count: int | None
    ) -> tuple[int, bool]:
        """How many rounds to rehearse, and whether these are all."""
        # One that ends by itself has handed out by then what it has.
        to_the_end = max(MOST_QUIET, self.plan.rounds + 1)
        paced_by = _paced_by(iterable)
        ends = isinstance(paced_by, Generator) and not _goes_on(paced_by)
        if id(node) in self.facts.yielding:
            if count is None:
                return to_the_end if ends else self.plan.rounds, False
            return min(count, MOST_WHILE), count <= MOST_WHILE
        if kind == "quiet":
            if count is None:
                return (1 if iterable.endless() else MOST_QUIET), isinstance(iterable, Generator)
            return min(count, MOST_QUIET), count <= MOST_QUIET
        if _is_listed(iterable) and count is not None and count <= MOST_QUIET:
            return count, True
        turns = kind == "outer" and self._turns(node)
        if kind == "outer" and not turns:
            if count is not None and count <= EPOCHS + 1:
                return count, True
            return EPOCHS, False
        if ends:
            return to_the_end, False
        if count is None:
            rounds = max(WINDOWS, self.plan.rounds)
            return rounds if turns else self._open_rounds(iterable), False
        rounds = self.shortened(count)
        if rounds < ENOUGH and isinstance(iterable.length(self.whole), Count):
            self.short_of = max(self.short_of, ENOUGH - rounds)
        return rounds, rounds == count

    def _turns(self, node: ast.AST) -> bool:
        """Each round of this loop trains by itself, whatever the loops inside it do."""
        return id(node) in self.facts.feeds or id(node) in self.facts.credits_itself

    def _open_rounds(self, iterable: Value) -> int:
        """A loop that only fills a window runs as often as the window is long."""
        number = iterable.asked_number()
        if number is not None and len(self.loops) > 0 and self.fills_window(self.node):
            return self.number(number)
        if number is not None and self.is_numbered(number):
            return self.number(number)
        return self.plan.rounds if number is None else self.whole_windows(self.plan.rounds, number)

    def fills_window(self, node: ast.AST) -> bool:
        """The loop credits and does not spend: the step comes after it."""
        return id(node) in self.facts.fills

    def goes_over(self, value: Iterated | Generator, told: bool) -> bool:
        """Whether the loop that is being run is a `while` that takes its elements from here."""
        loop = self.loops[-1] if self.loops else None
        if loop is None or not isinstance(loop.node, ast.While) or loop.kind == "quiet":
            return False
        if loop.iterable is None:
            self._measure(loop, value.of if isinstance(value, Iterated) else value)
            loop.iterable, loop.told = value, told
            self.libraries.round_is_of(self.whole, loop, None)
        return loop.iterable is value

    def _runs_on(self, loop: Loop, node: ast.While) -> bool:
        """A loop that ends by its own count is followed there, where a window may be open then."""
        if loop.kind == "quiet":
            return True
        short = self.plan.window > 1 or loop.index < MOST_QUIET
        return short and isinstance(node.test, ast.Compare)

    def _while(self, node: ast.While) -> Signal:
        kind = loop_kind(self.facts, node)
        outer = WINDOWS if self._turns(node) else EPOCHS
        most = {"quiet": 2, "outer": outer, "batches": self.plan.rounds}[kind]
        if id(node) in self.facts.yielding:
            most = MOST_WHILE
        # Only one that compares goes on for as long as its own count says: what else the rounds
        # count is cut short with them.
        rounds = MOST_WHILE if isinstance(node.test, ast.Compare) else most
        loop = Loop(node, kind, rounds, False, site=self.site(node))  # type: ignore[arg-type]
        self.libraries.loop_begins(self.whole, loop)
        self.loops.append(loop)
        signal: Signal = None
        begun = self.operations
        try:
            while loop.index < MOST_WHILE and not self._is_costly(loop, begun):
                answer = self.truth_of(node.test, loud=False)
                if answer is False:
                    break
                # An open test, or one that is always true, ends when enough was seen.
                open_ended = isinstance(answer, Condition) or isinstance(node.test, ast.Constant)
                if isinstance(answer, Condition):
                    loop.rounds = min(loop.rounds, most)
                if loop.iterable is not None:
                    most = loop.rounds + loop.told
                if loop.index >= most and (open_ended or not self._runs_on(loop, node)):
                    self.cut_short = self.cut_short or not loop.exact
                    break
                self.spend()
                self.libraries.round_begins(self.whole, loop, None)
                signal = self.block(node.body)
                loop.next_round(self.serial)
                if signal is BREAK or isinstance(signal, Return):
                    break
            else:
                self.cut_short = True
        finally:
            self.loops.remove(loop)
        if loop.iterable is not None and not loop.exact:
            self.cut_short = True
        self._note_cost(loop, begun)
        self.node = node
        self.libraries.loop_ends(self.whole, loop)
        if isinstance(signal, Return):
            return signal
        if signal is not BREAK and node.orelse:
            return self.block(node.orelse)
        return None

    # -- with and try

    def _with(self, node: ast.With | ast.AsyncWith) -> Signal:
        return self._managed(node, 0)

    def _managed(self, node: ast.With | ast.AsyncWith, place: int) -> Signal:
        if place == len(node.items):
            return self.block(node.body)
        item = node.items[place]
        manager = self.evaluate(item.context_expr).resolve(self.whole)
        if isinstance(manager, Generator):
            return self._around(manager, node, place)
        self.node = item.context_expr
        entered = manager.enter(self.whole)
        if item.optional_vars is not None:
            self.assign(item.optional_vars, entered)
        try:
            signal = self._managed(node, place + 1)
        finally:
            self.node = node
            manager.leave(self.whole)
        return signal

    def _around(self, manager: Generator, node: ast.With | ast.AsyncWith, place: int) -> Signal:
        """A @contextmanager function: its body runs around that of the `with`."""
        signals: list[Signal] = []
        home = self.frame

        def inside(value: Value) -> bool:
            if signals:
                return True
            frame, self.frame = self.frame, home
            variable = node.items[place].optional_vars
            if variable is not None:
                self.assign(variable, value)
            signals.append(self._managed(node, place + 1))
            self.frame = frame
            return False

        manager.for_each(self.whole, inside)
        if not signals:
            return self._managed(node, place + 1)
        return signals[0]

    def _try(self, node: ast.Try) -> Signal:
        depth = (len(self.loops), len(self.entered), self.frame)
        signal: Signal = None
        due = self._plan_fault(node)
        at_the_end = _handler_of_the_end(node)
        try:
            signal = self._tried(node, awaits_end=at_the_end is not None)
            if signal is None and node.orelse:
                signal = self.block(node.orelse)
        except RaisedError as raised:
            self._come_back(depth)
            ended = isinstance(raised, DataEndsError)
            if not node.handlers or (ended and at_the_end is None):
                self.block(node.finalbody)
                raise
            self.libraries.caught(self.whole)
            handler = (self._handler(node) if due else None) or node.handlers[0]
            handler = at_the_end if ended and at_the_end is not None else handler
            if handler.name:
                self.write(self.frame.names, handler.name, self.unknown(handler.name, fixed=False))
            signal = self.block(handler.body)
        finally:
            if due:
                self.fault_due = None
        if node.finalbody:
            signal = self.block(node.finalbody) or signal
        return signal

    def _tried(self, node: ast.Try, *, awaits_end: bool) -> Signal:
        catches = id(node) in self.facts.tries and bool(self.loops) and _catches_errors(node)
        self.awaiting_ends += awaits_end
        self.catching_errors += catches
        try:
            return self.block(node.body)
        finally:
            self.awaiting_ends -= awaits_end
            self.catching_errors -= catches

    def _come_back(self, depth: tuple[int, int, Any]) -> None:
        loops, entered, frame = depth
        del self.loops[loops:]
        del self.entered[entered:]
        self.frame = frame

    def _plan_fault(self, node: ast.Try) -> bool:
        """Where the plan says so, the next backward in this block raises."""
        if id(node) not in self.facts.tries or not self.loops:
            return False
        handler = self._handler(node)
        if handler is None or _always_raises(handler.body):
            return False
        key = (self.frame.file, node.lineno)
        self.faults[key] = self.faults.get(key, 0) + 1
        if self.plan.fault == key and self.faults[key] == 2:
            self.fault_due = node
            return True
        return False

    def _handler(self, node: ast.Try) -> ast.ExceptHandler | None:
        """Where an interrupted backward ends."""
        catching = (handler for handler in node.handlers if self._may_catch(handler.type))
        return next(catching, None)

    def _may_catch(self, announced: ast.expr | None) -> bool:
        """Whether what PyTorch raises, or whoever interrupts it, may end in this handler."""
        if isinstance(announced, ast.Tuple):
            return any(self._may_catch(element) for element in announced.elts)
        if not isinstance(announced, ast.Name):
            return True
        known = getattr(builtins, announced.id, None)
        if isinstance(known, type):
            return issubclass(RuntimeError, known) or not issubclass(known, Exception)
        return not isinstance(self.evaluate(announced), Class)

    def _raise(self, node: ast.Raise) -> Signal:
        returned = self._returned()
        if returned is not None:
            return returned
        value = self.evaluate(node.exc) if node.exc else NONE
        raise RaisedError(value, self.site(node))

    def _returned(self) -> Return | None:
        """What a branch before would have returned, where a function ends in an exception or
        leaves the program: nobody trains that way."""
        if not self.frame.returns:
            return None
        _, value = self.frame.returns.pop()
        return Return(value)

    # -- definitions

    def _global(self, node: ast.Global) -> Signal:
        for name in node.names:
            self.frame.outer[name] = self.frame.module or self.frame
        return None

    def _nonlocal(self, node: ast.Nonlocal) -> Signal:
        for name in node.names:
            frame = self.frame.around
            while frame is not None and name not in frame.names:
                frame = frame.around
            if frame is not None:
                self.frame.outer[name] = frame
        return None

    def _return(self, node: ast.Return) -> Signal:
        return Return(self.evaluate(node.value) if node.value else NONE)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signal:
        made = self.whole.decorate(node.decorator_list, self.whole.define(node))
        self.write(self.frame.owner_of(node.name), node.name, made)
        return None

    def _class(self, node: ast.ClassDef) -> Signal:
        made = self.whole.define_class(node)
        self.write(self.frame.owner_of(node.name), node.name, made)
        return None

    def _import(self, node: ast.Import) -> Signal:
        self.whole.import_names(node)
        return None

    def _import_from(self, node: ast.ImportFrom) -> Signal:
        self.whole.import_from(node)
        return None


def _stands_for_another(node: ast.AnnAssign, value: Value) -> bool:
    """`optimizer: Adam = "adam"` in a class: a text that somebody replaces by what it names."""
    if not isinstance(value, Constant) or not isinstance(value.value, str):
        return False
    kind = node.annotation
    match kind:
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional")):
            kind = kind.slice
        case ast.BinOp(op=ast.BitOr(), right=ast.Constant(value=None)):
            kind = kind.left
    if not isinstance(kind, (ast.Name, ast.Attribute)) or not isinstance(node.target, ast.Name):
        return False
    name = kind.id if isinstance(kind, ast.Name) else kind.attr
    return name[:1].isupper() and name not in TEXTS


def _moves_on(node: ast.Assign, sum_: ast.BinOp) -> bool:
    """`count = count + 1`."""
    if not isinstance(sum_.op, (ast.Add, ast.Sub)):
        return False
    if not isinstance(sum_.right, ast.Constant) or type(sum_.right.value) not in (int, float):
        return False
    return ast.unparse(node.targets[0]) == ast.unparse(sum_.left)


def _is_setting(test: bool | Condition) -> bool:
    """Another round of the loop has nothing else to ask, and no other answer."""
    if not isinstance(test, Condition) or not test.fixed:
        return False
    return all(TURN not in operand.sources() for operand in test.operands())


def _stays(node: ast.If) -> bool | None:
    """The answer that goes on with the loop or function, where one of them leaves it."""
    # A chain of `elif` is gone down, though each of its ways may leave.
    leaves = [_leaves(node.body), bool(node.orelse) and isinstance(node.orelse[-1], LEAVES)]
    if leaves[0] == leaves[1]:
        return None
    return leaves[1]


def _ends(function: ast.AST, node: ast.If) -> bool:
    """A function's last statement is this one, or the chain of `elif` that it belongs to."""
    body: list[ast.stmt] = getattr(function, "body", [])
    while body and isinstance(body[-1], ast.If):
        if body[-1] is node:
            return True
        body = body[-1].orelse
    return False


TEXTS = frozenset(("Any", "AnyStr", "Text", "LiteralString", "Path"))
"""What a text may be said to be, and is a text all the same."""
LEAVES = (ast.Break, ast.Return, ast.Continue)


def _handler_of_the_end(node: ast.Try) -> ast.ExceptHandler | None:
    """`except StopIteration`."""
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(isinstance(kind, ast.Name) and kind.id == "StopIteration" for kind in kinds):
            return handler
    return None


def _catches_errors(node: ast.Try) -> bool:
    """`except RuntimeError`, or of more than that."""
    names = [getattr(handler.type, "id", "") for handler in node.handlers if handler.type]
    kinds = [getattr(builtins, name, None) for name in names]
    return len(names) < len(node.handlers) or any(
        isinstance(kind, type) and issubclass(RuntimeError, kind) for kind in kinds
    )


def _always_raises(handler: list[ast.stmt]) -> bool:
    """Whether it ends in a `raise` that nothing before it goes around."""
    for statement in handler:
        if isinstance(statement, ast.Raise):
            return True
        if any(
            isinstance(part, (ast.Continue, ast.Break, ast.Return)) for part in ast.walk(statement)
        ):
            return False
    return False


def _leaves(block: list[ast.stmt]) -> bool:
    last = block[-1] if block else None
    if isinstance(last, ast.If):
        return _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, LEAVES)


def _paced_by(iterable: Value) -> Value:
    """Whose elements these are, in the end: what `enumerate` numbers, what a progress bar shows."""
    of = getattr(iterable, "of", None)
    return _paced_by(of) if isinstance(of, Value) else iterable


def _is_listed(iterable: Value) -> bool:
    """Each of its elements is known, as it is of what is zipped with another list, or numbered."""
    if isinstance(iterable, Enumerated):
        return _is_listed(iterable.of)
    if isinstance(iterable, Zipped):
        return bool(iterable.of) and all(map(_is_listed, iterable.of))
    return isinstance(iterable, (List, Tuple))


def _goes_on(generator: Generator) -> bool:
    """It hands out something as long as it is asked."""
    return any(isinstance(part, ast.While) for part in ast.walk(generator.function.code))


HANDLERS: dict[type[ast.stmt], Handler] = {
    ast.Expr: Statements._expression,
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.If: Statements._if,
    ast.For: Statements._for,
    ast.AsyncFor: Statements._for,
    ast.While: Statements._while,
    ast.With: Statements._with,
    ast.AsyncWith: Statements._with,
    ast.Try: Statements._try,
    ast.TryStar: Statements._try,
    ast.Raise: Statements._raise,
    ast.Return: Statements._return,
    ast.Break: lambda machine, node: BREAK,
    ast.Continue: lambda machine, node: CONTINUE,
    ast.FunctionDef: Statements._function,
    ast.AsyncFunctionDef: Statements._function,
    ast.ClassDef: Statements._class,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._import_from,
    ast.Global: Statements._global,
    ast.Nonlocal: Statements._nonlocal,
    ast.Delete: Statements._delete,
    ast.Match: Statements._match,
}
