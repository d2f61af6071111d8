"""Loops: how many rounds, over what, and where a batch or an epoch begins."""

import ast
import re

from gradkeeper.lint import parameter_loops
from gradkeeper.lint.rehearsal import Loop, Rehearsal
from gradkeeper.lint.tensors import opaque_parts
from gradkeeper.lint.values import (
    BREAK,
    Loader,
    Module,
    Opaque,
    Param,
    Params,
    Return,
    Signal,
    Value,
    Wrapped,
)
from gradkeeper.model import events as ev

MOST_QUIET = 8
OUTER_ROUNDS = 2
CLOSING_ROUNDS = 3
MOST_FURTHER = 8
"""Rounds of an outer loop beyond those, while a window waits that a later one may spend."""
MOST_COUNTED = 32
"""Rounds of a `while` whose test is known, where windows matter."""
OF_ONE_BATCH = re.compile(r"task|episode|env|agent|time|frame|chunk|seq|^t$", re.I)
"""What a loop inside an update runs over, when all of it belongs to one batch."""


def for_loop(r: Rehearsal, node: ast.For | ast.AsyncFor) -> Signal:
    from gradkeeper.lint import expressions

    iterable = expressions.evaluate(r, node.iter)
    over_parameters, signal = parameter_loops.run(r, node, iterable)
    if over_parameters:
        return signal
    if r.frame.survey is None or node not in r.frame.survey.rounds:
        return _quiet(r, node, iterable)
    return _loud(r, node, iterable)


def element_of(r: Rehearsal, iterable: Value, index: Value = None) -> Value:
    """What one round of a loop is given."""
    if isinstance(iterable, Params):
        param = Param(iterable.nodes)
        return (Opaque("name", data=True), param) if iterable.named else param
    if isinstance(iterable, Wrapped):
        if iterable.kind == "enumerate":
            return (index, element_of(r, iterable.of[0], _minus(index, iterable.start)))
        return tuple(element_of(r, one, index) for one in iterable.of)
    if isinstance(iterable, (list, tuple, range)):
        if isinstance(index, int) and 0 <= index < len(iterable):
            return iterable[index]
        return iterable[0] if iterable else Opaque("element", data=True)
    if isinstance(iterable, Opaque):
        if iterable.inner is not None:
            return iterable.inner
        return Opaque(
            f"{iterable.name}[i]",
            iterable.flow,
            iterable.maybe,
            data=not (iterable.flow or iterable.maybe),
            disk=iterable.disk,
        )
    if isinstance(iterable, Loader):
        return iterable.element or Opaque(f"{iterable.name}[i]", data=True)
    return Opaque("element", data=True)


def _minus(index: Value, start: Value) -> Value:
    if isinstance(index, int) and isinstance(start, int):
        return index - start
    return None


def count_of(iterable: Value) -> int | None:
    """How many rounds the source tells of."""
    if isinstance(iterable, (list, tuple, range, dict)):
        return len(iterable)
    if isinstance(iterable, (Opaque, Loader)):
        return iterable.length
    if isinstance(iterable, Wrapped):
        counts = [count_of(one) for one in iterable.of]
        known = [one for one in counts if one is not None]
        if iterable.kind == "enumerate" or len(known) == len(counts):
            return min(known, default=None)
        return None
    if isinstance(iterable, Module) and iterable.items is not None:
        return len(iterable.items)
    return None


def elements(r: Rehearsal, iterable: Value, node: ast.AST) -> tuple[list[Value], bool]:
    """The elements of something short and known, and whether these are all."""
    if isinstance(iterable, Module) and iterable.items is not None:
        iterable = list(iterable.items)
    if isinstance(iterable, dict):
        iterable = list(iterable)
    if isinstance(iterable, Params):
        if iterable.oneshot and iterable.used:
            r.post(ev.Exhaust(site=r.site(node), use="this loop"))
            return [], True
        iterable.used = True
        return [element_of(r, iterable)], True
    if isinstance(iterable, Wrapped) and parameter_loops.parameters(iterable) is not None:
        return [element_of(r, iterable)], True
    count = count_of(iterable)
    if isinstance(iterable, (list, tuple, range, Wrapped)) and count is not None:
        start = iterable.start if isinstance(iterable, Wrapped) else 0
        begin = start if isinstance(start, int) else 0
        some = range(begin, begin + min(count, 64))
        return [element_of(r, iterable, one) for one in some], count <= 64
    return [element_of(r, iterable)], False


def _quiet(r: Rehearsal, node: ast.For | ast.AsyncFor, iterable: Value) -> Signal:
    from gradkeeper.lint import statements

    found, known = elements(r, iterable, node.iter)
    exact = known and len(found) <= MOST_QUIET
    before = dict(r.frame.names)
    lists = {} if exact or not known else _lists(before)
    for element in found if exact else found[:1]:
        statements.assign(r, node.target, element, node)
        signal = statements.block(r, node.body)
        if signal is BREAK:
            break
        if isinstance(signal, Return):
            return signal
    if not exact:
        _forget_counters(r, before)
    for name, size in lists.items():
        grown = before[name]
        if len(grown) == size + 1:
            grown.extend(grown[-1:] * (len(found) - 1))
    return None


def _lists(names: dict[str, Value]) -> dict[str, int]:
    """Lists that a loop may fill, one element a round."""
    return {name: len(value) for name, value in names.items() if isinstance(value, list)}


def _forget_counters(r: Rehearsal, before: dict[str, Value]) -> None:
    """Numbers that a loop of unknown length has changed are not known after it."""
    for name, value in r.frame.names.items():
        if isinstance(value, (int, float)) and before.get(name) != value:
            r.frame.names[name] = Opaque(name)


def _loud(r: Rehearsal, node: ast.For | ast.AsyncFor, iterable: Value) -> Signal:
    if isinstance(iterable, Module) and iterable.items is not None:
        iterable = list(iterable.items)
    if isinstance(iterable, dict):
        iterable = list(iterable)
    count = count_of(iterable)
    total = _rounds(r, node, iterable, count)
    data = _is_data(r, node, iterable)
    epoch = data and r.frame.survey is not None and node in r.frame.survey.stepping
    source = _source(r, node)
    if epoch:
        r.post(ev.EpochBegin(site=r.site(node), source=source))
    signal = _rounds_of(r, node, iterable, total, count, data=data, source=source)
    if epoch:
        r.post(ev.EpochEnd(site=r.site(node), source=source))
    return signal


def _rounds(r: Rehearsal, node: ast.AST, iterable: Value, count: int | None) -> int:
    survey = r.frame.survey
    if node in survey.outer:
        most = CLOSING_ROUNDS if node in survey.closing else OUTER_ROUNDS
        if isinstance(iterable, (list, tuple)):
            most = max(most, min(len(iterable), 4))
        if node in survey.closing and r.gate > 1:
            most = 2 * r.gate + 1
        return most if count is None else min(most, count)
    if count is None:
        return r.batches
    return count if isinstance(iterable, (list, tuple)) and count < 9 else r.rounds(count)


def _is_data(r: Rehearsal, node: ast.AST, iterable: Value) -> bool:
    """Whether each round has a batch of its own; else the rounds share one, as time steps do."""
    survey = r.frame.survey
    if node in survey.outer and node not in survey.fetching and node not in survey.closing:
        return False
    nested = any(loop.data for loop in r.loops)
    if not nested or node in survey.fetching:
        return True
    if isinstance(iterable, range) and node in survey.drawing:
        name = getattr(getattr(node, "target", None), "id", "")
        return _counts_updates(r) and not OF_ONE_BATCH.search(name)
    return _hands_out_batches(iterable)


def _hands_out_batches(iterable: Value) -> bool:
    """Rather than parts of one batch, or what was computed from it."""
    if isinstance(iterable, Wrapped):
        return not any(one.flow for one in opaque_parts(iterable.of))
    if isinstance(iterable, Opaque):
        return not (iterable.data or iterable.flow)
    return isinstance(iterable, Loader)


def _counts_updates(r: Rehearsal) -> bool:
    """The loop around this one counts: it neither fetches a batch nor draws one."""
    around = next(loop for loop in reversed(r.loops) if loop.data)
    survey = r.frame.survey
    if around.node in survey.fetching or around.node in survey.drawing:
        return False
    source = getattr(around.node, "iter", None)
    name = getattr(getattr(source, "func", None), "id", "")
    return name in ("range", "trange")


def _source(r: Rehearsal, node: ast.AST) -> str:
    from gradkeeper.lint.expressions import text

    return text(r, getattr(node, "iter", None) or node)


def fetch(r: Rehearsal, node: ast.AST, iterable: Value) -> None:
    r.fetch(node, str(getattr(iterable, "name", "loop")))


def _rounds_of(
    r: Rehearsal,
    node: ast.For | ast.AsyncFor,
    iterable: Value,
    total: int,
    count: int | None,
    *,
    data: bool,
    source: str,
) -> Signal:
    from gradkeeper.lint import statements

    loop = Loop(node, data=data)
    r.loops.append(loop)
    start = iterable.start if isinstance(iterable, Wrapped) else 0
    begin = start if isinstance(start, int) else 0
    signal: Signal = None
    turn = 0
    while turn < total or _goes_on(r, node, turn - total, _left(count, turn)):
        loop.round, loop.last = turn, turn == total - 1
        if data:
            r.fetch(node, source)
        statements.assign(r, node.target, element_of(r, iterable, begin + turn), node)
        signal = statements.block(r, node.body)
        turn += 1
        if signal is BREAK or isinstance(signal, Return):
            break
    _finish(r, loop)
    if signal is BREAK or isinstance(signal, Return):
        return signal if isinstance(signal, Return) else None
    return statements.block(r, node.orelse)


def _left(count: int | None, turn: int) -> int | None:
    return None if count is None else count - turn


def _goes_on(r: Rehearsal, node: ast.AST, further: int, left: int | None) -> bool:
    """Whether to run an outer loop on, though we have seen enough of it.

    A window that runs across its rounds would else look cut off where only we stopped. `left`:
    the rounds that the source tells of beyond these, where it does.
    """
    if node not in r.frame.survey.outer or r.gate <= 1:
        return False
    if not r.waiting() and (left is None or further == 0):
        return False
    if left is None:
        more = not r.ends_within_window()
    else:
        more = left % r.gate != 0
    if not more or further >= r.gate:  # after so many rounds a running counter comes full circle
        return False
    if further < MOST_FURTHER:
        return True
    r.cut_short = True
    return False


def _finish(r: Rehearsal, loop: Loop) -> None:
    r.loops.pop()
    if loop.backwards:
        r.finished[loop.node] = r.finished.get(loop.node, False) or loop.steps > 0
    for above in r.loops:
        if loop.steps:
            r.finished[loop.node] = True
        _ = above


def while_loop(r: Rehearsal, node: ast.While) -> Signal:
    from gradkeeper.lint import expressions, statements

    survey = r.frame.survey
    if survey is None or node not in survey.rounds:
        return _quiet_while(r, node)
    outer = node in survey.outer
    data = not outer or node in survey.fetching or node in survey.closing
    most = r.batches if not outer or node in survey.closing else OUTER_ROUNDS
    loop = Loop(node, data=data)
    r.loops.append(loop)
    source = expressions.text(r, node.test)
    signal: Signal = None
    turn = 0
    while True:
        known, _ = expressions.test(r, node.test)
        if known is False or (turn >= most and not _once_more(r, node, turn, most, known)):
            break
        turn += 1
        loop.round = turn
        if data:
            r.fetch(node, source)
        signal = statements.block(r, node.body)
        if signal is BREAK or isinstance(signal, Return):
            break
    _finish(r, loop)
    return signal if isinstance(signal, Return) else None


def _once_more(r: Rehearsal, node: ast.While, turn: int, most: int, known: bool | None) -> bool:
    """Whether to run on after `most` rounds; `while True` stops where an epoch would."""
    if isinstance(node.test, ast.Constant):
        return False
    if known is None:
        return _goes_on(r, node, turn - most, None)
    if node in r.frame.survey.outer:
        limit = most + MOST_FURTHER if r.gate > 1 and r.waiting() else most
    else:
        limit = max(4 * r.gate, MOST_COUNTED if r.gate > 1 else 0)
    if turn < limit:
        return True
    r.cut_short = r.cut_short or r.waiting()
    return False


def _quiet_while(r: Rehearsal, node: ast.While) -> Signal:
    from gradkeeper.lint import statements

    before = dict(r.frame.names)
    signal = statements.block(r, node.body)
    _forget_counters(r, before)
    return signal if isinstance(signal, Return) else None
