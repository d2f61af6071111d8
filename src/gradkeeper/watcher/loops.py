"""Rounds of loops that read no loader: the lines of one frame run backwards.

Loops are read from bytecode. A round counts as a batch if the loop also holds a step, unless the
loop around it trains something itself: then both take turns on one batch. Where an inner loop makes
several losses and the step comes after it, they may be tasks or time steps of one batch;
inner_batches.py tells.
"""

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from gradkeeper.source_line import Sites
from gradkeeper.watcher.search import attributes_of, variables_of

STORES = ("STORE_NAME", "STORE_GLOBAL", "STORE_FAST", "STORE_DEREF")
MOST_TARGETS = 4
MOST_USUAL = 256
DEPTH = 3
"""How many calls deep a mention of `step` is looked for."""
MOST_WRAPPED = 2
"""Functions around another one."""


@dataclass(frozen=True)
class CodeLoop:
    """A loop in bytecode, from its first to its last offset, and the variables it sets."""

    start: int
    end: int
    line: int
    targets: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    """Those of them that nothing inside it sets: another value is another round."""
    steps: bool = False

    def holds(self, offset: int) -> bool:
        return self.start <= offset <= self.end

    def has_inside(self, other: "CodeLoop") -> bool:
        return self.holds(other.start) and self.holds(other.end) and other != self


@dataclass(frozen=True)
class Round:
    source: str
    new_epoch: bool
    ended: tuple[str, ...] = ()
    """The loops inside that have come to their end before it."""


InnerLoop = tuple[CodeType, int]
"""A loop that holds no step, or takes turns, by its code and its start."""
UNTOLD: tuple[bool, None] = (False, None)
CodePlace = tuple[int, CodeType, int]
"""A frame's address, its code, and the offset of the instruction that runs."""


Passage = tuple[int, int, int, int | None]
"""A frame's address, the offsets of two events in it, and which one of a pattern the second is,
where that matters."""


class Rounds:
    """Tells when a loop has gone round since the event before."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.places: list[CodePlace] = []
        """Of the user's frames at the event before, outermost first."""
        self.fed_at: CodePlace | None = None
        """Of the last event while a loader told of rounds, if none has come since."""
        self._loops: dict[int, tuple[CodeType, list[CodeLoop]]] = {}
        self._stepping: set[tuple[int, int]] = set()
        """Loops that were seen to hold a step, by code and start."""
        self._searched: set[tuple[int, int]] = set()
        """Those in which the functions were looked at that local variables hold."""
        self.inner: InnerLoop | None = None
        """An inner loop has gone round since the last backward."""
        self.bringing: set[InnerLoop] = set()
        """Such loops whose rounds bring a batch each."""
        self.sharing: set[InnerLoop] = set()
        """And those whose rounds share one: time steps, or parts of a batch."""
        self._turning: dict[tuple[int, int], bool] = {}
        """Whether a loop that steps lies in one that trains something itself, by code and start."""
        self.source = ""
        """Of the last round that was told."""
        self.counters: dict[InnerLoop, tuple[object, ...]] = {}
        """By loop that holds a step: what its counters were when it last went round."""
        self.nested = False
        """Some loop has one inside that holds no step: its counters are worth reading."""
        self.changed: list[Callable[[], None]] = []
        """Told of that."""
        self._epochs: dict[str, object] = {}
        self._running: dict[str, tuple[int, CodeType, CodeLoop]] = {}
        """Loops that step and that have gone round since the one around them has: in which frame,
        counted from outside."""
        self._usual: dict[Passage, tuple[object, Round | None, CodeLoop | None]] = {}
        """What passes between two places of one frame, where that never varies: with its token,
        and the loop that goes round."""

    def next(self, *, step: bool = False, moment: int | None = None) -> Round | None:
        """To be asked at each event; None unless a loop began or went round since the last one.

        `moment`: which event of the loop's pattern it is, where there is one.
        """
        frames = self._user_frames()
        places = [(id(frame), frame.f_code, frame.f_lasti) for frame in frames]
        before, self.places = self.places, places
        if self.fed_at is not None:
            before, self.fed_at = _at(self.fed_at, places) or before, None
        if step:
            self._note_step(frames)
        level = _level(before, places)
        if level is None:
            return self._entered(frames, before, places)
        for depth in range(level, -1, -1):
            loop = self._innermost(frames[depth], places[depth][2], before[depth][2])
            if loop is None:
                continue
            if not self._is_stepping(frames, depth, loop):
                return self._inner_round(frames, depth, loop, before, moment)
            entered = self._entered(frames, before, places)
            if entered is not None:
                return entered
            passed = self._round(frames, depth, loop)
            if depth == len(frames) - 1 and not self._outer(frames[depth], loop):
                usual = Round(passed.source, new_epoch=False, ended=passed.ended)
                self._learn(frames[depth], before, usual, loop=loop)
            return passed
        return None

    def _inner_round(
        self,
        frames: list[FrameType],
        depth: int,
        loop: CodeLoop,
        before: list[CodePlace],
        moment: int | None,
    ) -> Round | None:
        """Unless it is the loop around it that has gone round: nothing else happens in between."""
        if not self.nested:
            self.nested = True
            for tell in self.changed:
                tell()
        for level in range(depth, -1, -1):
            around = self._around(frames, level)
            if around is not None:
                if self._goes_on(frames[level], around):
                    return self._round(frames, level, around)
                break
        known = (frames[depth].f_code, loop.start)
        innermost = depth == len(frames) - 1
        if known in self.sharing:
            if innermost and moment is not None:
                # Only there: elsewhere in the pattern, the loop around may go round in between.
                self._learn(frames[depth], before, None, moment=moment)
            return None
        if known not in self.bringing:
            self.inner = known
            return None
        passed = Round(self.source, new_epoch=False)
        if innermost:
            self._learn(frames[depth], before, passed)
        return passed

    def _takes_turns(self, frames: list[FrameType], depth: int, loop: CodeLoop) -> bool:
        """The loop around this one trains something itself, and brings the batch for both, until
        the rounds of this one are seen to bring others."""
        frame = frames[depth]
        code, names = frame.f_code, frame.f_globals
        known = self._turning.get((id(code), loop.start))
        if known is None:
            outer: list[CodeLoop | None] = [*self._outer(frame, loop)]
            if not outer and self._are_in_loops(frames[:depth]):
                outer = [None]
            known = any(
                _credits_itself(code, names, DEPTH, around) or _steps_itself(frame, around, loop)
                for around in outer
            )
            self._turning[id(code), loop.start] = known
        return known and (code, loop.start) not in self.bringing

    def _are_in_loops(self, frames: list[FrameType]) -> bool:
        return any(
            loop.holds(frame.f_lasti) for frame in frames for loop in self._loops_of(frame.f_code)
        )

    def _goes_on(self, frame: FrameType, loop: CodeLoop) -> bool:
        """Whether a loop's counters are others than when it was last seen."""
        known = (frame.f_code, loop.start)
        now = _values(frame, loop.counters)
        return self.counters.setdefault(known, now) != now

    def _entered(
        self, frames: list[FrameType], before: list[CodePlace], places: list[CodePlace]
    ) -> Round | None:
        """A loop that steps has begun: the event before lay outside of it."""
        for depth in range(len(frames) - 1, -1, -1):
            loop = self._around(frames, depth)
            if loop is None:
                continue
            was = before[depth] if depth < len(before) else None
            inside = was is not None and was[1] is places[depth][1] and loop.holds(was[2])
            if inside and was is not None and was[0] == places[depth][0]:
                break
            return self._round(frames, depth, loop, begins=True)
        if len(before) == len(places) and before[-1][2] < places[-1][2]:
            self._learn(frames[-1], before, None)
        return None

    def _around(self, frames: list[FrameType], depth: int) -> CodeLoop | None:
        """The innermost loop of a frame that steps, around where it is."""
        frame = frames[depth]
        around = [loop for loop in self._loops_of(frame.f_code) if loop.holds(frame.f_lasti)]
        around = [loop for loop in around if self._is_stepping(frames, depth, loop)]
        return min(around, key=lambda loop: loop.end - loop.start, default=None)

    def _learn(
        self,
        frame: FrameType,
        before: list[CodePlace],
        passed: Round | None,
        *,
        moment: int | None = None,
        loop: CodeLoop | None = None,
    ) -> None:
        if len(self._usual) >= MOST_USUAL:
            self._usual.clear()
        passage = (id(frame), frame.f_lasti, before[-1][2], moment)
        self._usual[passage] = (frame.f_trace, passed, loop)

    def forget_moments(self) -> None:
        """The loop has another pattern now."""
        self._usual = {key: known for key, known in self._usual.items() if key[3] is None}

    def quick(self, frame: FrameType, moment: int) -> tuple[bool, Round | None]:
        """As `next`, where the innermost frame alone tells; the first value says if it does."""
        if not self.places:
            return UNTOLD
        address, code, before = self.places[-1]
        if frame.f_code is not code or id(frame) != address:
            return UNTOLD
        now = frame.f_lasti
        known = self._usual.get((address, now, before, None))
        if known is None:
            known = self._usual.get((address, now, before, moment))
        if known is None or frame.f_trace is not known[0]:
            return UNTOLD
        self.places[-1] = (address, code, now)
        if self.nested:
            self.went_on(frame, before)
        return True, known[1]

    def went_on(self, frame: FrameType, before: int) -> None:
        """From an event at this offset to the next one, as ever."""
        known = self._usual.get((id(frame), frame.f_lasti, before, None))
        if known is not None and known[2] is not None:
            self._count(frame, known[2])

    def _count(self, frame: FrameType, loop: CodeLoop) -> None:
        self.counters[frame.f_code, loop.start] = _values(frame, loop.counters)

    def _user_frames(self) -> list[FrameType]:
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(2)
        known, is_user = self._sites.known, self._sites.is_user
        while frame is not None:
            code = frame.f_code
            mine = known.get(code.co_filename)
            if mine or (mine is None and is_user(code)):
                frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        return frames

    def _innermost(self, frame: FrameType, place: int, other: int) -> CodeLoop | None:
        """The innermost loop of a frame around both places."""
        loops = self._loops_of(frame.f_code)
        around = [loop for loop in loops if loop.holds(place) and loop.holds(other)]
        return min(around, key=lambda loop: loop.end - loop.start, default=None)

    def _is_stepping(self, frames: list[FrameType], depth: int, loop: CodeLoop) -> bool:
        """Its rounds are batches."""
        return self._holds_step(frames, depth, loop) and not self._takes_turns(frames, depth, loop)

    def _holds_step(self, frames: list[FrameType], depth: int, loop: CodeLoop) -> bool:
        code = frames[depth].f_code
        if loop.steps or (id(code), loop.start) in self._stepping:
            return True
        inner = [frame.f_code for frame in frames[depth + 1 :]]
        found = (
            any("step" in called.co_names for called in inner)
            or _mentions_step(code, frames[depth].f_globals, DEPTH, within=loop)
            or self._calls_what_was_handed_in(frames[depth], loop)
        )
        if found:
            self._stepping.add((id(code), loop.start))
        return found

    def _calls_what_was_handed_in(self, frame: FrameType, loop: CodeLoop) -> bool:
        """A function mentions a step that an argument or another local variable holds, as a loop
        has it that is in a function of its own. Looked for once: the step itself tells as well."""
        code = frame.f_code
        known = (id(code), loop.start)
        if known in self._searched or not code.co_flags & inspect.CO_OPTIMIZED:
            return False
        self._searched.add(known)
        held = variables_of(frame)
        return any(
            _mentions_step(called, frame.f_globals, DEPTH - 1)
            for name in dict.fromkeys(_loaded(code, LOCALS, loop))
            for called in _behind(held.get(name), MOST_WRAPPED)
        )

    def _note_step(self, frames: list[FrameType]) -> None:
        for frame in frames:
            for loop in self._loops_of(frame.f_code):
                if loop.holds(frame.f_lasti):
                    self._stepping.add((id(frame.f_code), loop.start))

    def _loops_of(self, code: CodeType) -> list[CodeLoop]:
        known = self._loops.get(id(code))
        if known is None:
            known = self._loops[id(code)] = (code, find_loops(code))
        return known[1]

    def _round(
        self, frames: list[FrameType], depth: int, loop: CodeLoop, *, begins: bool = False
    ) -> Round:
        frame = frames[depth]
        source = f"the loop at line {loop.line} of {frame.f_code.co_name}"
        outer = self._outer(frame, loop)
        now = (_token(frame), tuple(_values(frame, around.targets) for around in outer))
        self.source = source
        self._count(frame, loop)
        known = source in self._epochs
        before = self._epochs.get(source)
        self._epochs[source] = now
        ended = self._ended(depth, frame.f_code, loop)
        self._running[source] = (depth, frame.f_code, loop)
        return Round(source, new_epoch=known and (begins or before != now), ended=ended)

    def _ended(self, depth: int, code: CodeType, loop: CodeLoop) -> tuple[str, ...]:
        """What ran inside this loop, or in functions that it called, before it went round."""
        found = tuple(
            source
            for source, (level, other, inner) in self._running.items()
            if level > depth
            or (other is code and inner.start > loop.start and inner.end < loop.end)
        )
        for source in found:
            del self._running[source]
        return found

    def standing(self) -> tuple[list[FrameType], int, CodeLoop] | None:
        """The user's frames, and the loop that steps around where they are: in which one, and what.

        Where none is known to step yet, the outermost one of a script.
        """
        frames = self._user_frames()
        for depth in range(len(frames) - 1, -1, -1):
            loop = self._around(frames, depth)
            if loop is not None:
                return frames, depth, loop
        if not frames or frames[0].f_code.co_name != "<module>":
            return None
        loops = [loop for loop in self._loops_of(frames[0].f_code) if loop.holds(frames[0].f_lasti)]
        outermost = max(loops, key=lambda loop: loop.end - loop.start, default=None)
        return None if outermost is None else (frames, 0, outermost)

    def _outer(self, frame: FrameType, loop: CodeLoop) -> list[CodeLoop]:
        return [other for other in self._loops_of(frame.f_code) if other.has_inside(loop)]


def _at(place: CodePlace, now: list[CodePlace]) -> list[CodePlace] | None:
    """Where all frames were when one of them was at this place."""
    for level, (frame, code, _) in enumerate(now):
        if frame == place[0] and code is place[1]:
            return [*now[:level], place]
    return None


def _level(before: list[CodePlace], now: list[CodePlace]) -> int | None:
    """The outermost frame whose lines ran backwards; None if all went on."""
    for level, (old, new) in enumerate(zip(before, now, strict=False)):
        if old[1] is not new[1]:
            return None
        if old[2] < new[2]:
            return None
        if old[2] > new[2]:
            return level
        if old[0] != new[0]:
            # Another call of the same function: the frame that called it went round.
            return level
    if len(before) == len(now) and now:
        return len(now) - 1
    return None


@lru_cache(maxsize=MOST_USUAL)
def find_loops(code: CodeType) -> list[CodeLoop]:
    """Kept for the next watch: reading bytecode takes milliseconds."""
    instructions = list(dis.get_instructions(code))
    line = code.co_firstlineno
    lines: dict[int, int] = {}
    for instruction in instructions:
        line = _starts_line(instruction) or line
        lines[instruction.offset] = line
    by_offset = {instruction.offset: place for place, instruction in enumerate(instructions)}
    ends: dict[int, int] = {}
    for instruction in instructions:
        if "JUMP_BACKWARD" in instruction.opname or "POP_JUMP_BACKWARD" in instruction.opname:
            place = by_offset[int(instruction.argval)]
            while instructions[place].opname == "NOP":  # `while True:` itself: some jumps skip it
                place += 1
            start = instructions[place].offset
            ends[start] = max(ends.get(start, 0), instruction.offset)
    found = []
    for start, end in ends.items():
        body = instructions[by_offset[start] : by_offset[end]]
        targets = _targets(body)
        set_once = [name for name in targets if _stores(body).count(name) == 1]
        found.append(CodeLoop(start, end, lines[start], targets, tuple(set_once)))
    return found


def _starts_line(instruction: dis.Instruction) -> int | None:
    if sys.version_info >= (3, 13):  # where starts_line only says whether it does
        return instruction.line_number
    return instruction.starts_line


def _targets(instructions: list[dis.Instruction]) -> tuple[str, ...]:
    """The variables that a `for` sets: the stores right behind FOR_ITER.

    Where a loop is long, or a code has many names, instructions have others in front of them that
    widen their arguments.
    """
    near = instructions[: 3 * (4 + 2 * MOST_TARGETS)]
    instructions = [instruction for instruction in near if instruction.opname != "EXTENDED_ARG"]
    if not instructions or instructions[0].opname != "FOR_ITER":
        return ()
    names: list[str] = []
    for instruction in instructions[1 : 4 + 2 * MOST_TARGETS]:
        stored = _stored(instruction)
        names += stored
        if instruction.opname == "STORE_FAST_LOAD_FAST":
            break
        if stored:
            continue
        if instruction.opname not in ("UNPACK_SEQUENCE", "CACHE"):
            break
    return tuple(names[:MOST_TARGETS])


def _stores(instructions: list[dis.Instruction]) -> list[str]:
    return [name for instruction in instructions for name in _stored(instruction)]


def _stored(instruction: dis.Instruction) -> list[str]:
    """The variables that an instruction sets."""
    if instruction.opname in STORES:
        return [str(instruction.argval)]
    if instruction.opname == "STORE_FAST_STORE_FAST":  # two in one, since Python 3.13
        return list(instruction.argval)
    if instruction.opname == "STORE_FAST_LOAD_FAST":
        return [instruction.argval[0]]
    return []


class SetInLoop(NamedTuple):
    """What the rounds of a loop set: variables, and attributes of whatever object."""

    variables: set[str]
    attributes: set[str]


def set_in(code: CodeType, loop: CodeLoop, names: dict[str, Any]) -> SetInLoop:
    """Also by the functions that it calls, as far as that lasts when they return."""
    found = SetInLoop(set(), set())
    for called, within in _codes(code, names, DEPTH, loop):
        for kind, offset, name in _stored_by(called):
            if within is not None and not within.holds(offset):
                continue
            if kind == "STORE_ATTR":
                found.attributes.add(name)
            elif kind == "STORE_GLOBAL" or called is code:
                found.variables.add(name)
    return found


@lru_cache(maxsize=MOST_USUAL)
def _stored_by(code: CodeType) -> list[tuple[str, int, str]]:
    """The names that it sets, how, and where."""
    found = []
    for instruction in dis.get_instructions(code):
        attribute = instruction.opname == "STORE_ATTR"
        for name in [str(instruction.argval)] if attribute else _stored(instruction):
            found.append((instruction.opname, instruction.offset, name))
    return found


def _mentions_step(
    code: CodeType, names: dict[str, Any], depth: int, within: CodeLoop | None = None
) -> bool:
    return any(
        "step" in _loaded(called, ATTRIBUTES, inside)
        or ("step" in _loaded(called, NAMES, inside) and callable(names.get("step")))
        for called, inside in _codes(code, names, depth, within)
    )


def _credits_itself(
    code: CodeType, names: dict[str, Any], depth: int, within: CodeLoop | None = None
) -> bool:
    """A backward stands there outside of the loops in it, or in a function that is called there."""
    own = {
        name
        for kind, offset, name in _loads(code)
        if kind in ATTRIBUTES | NAMES and _is_outside(offset, code, within)
    }
    return "backward" in own or any(
        _credits_itself(function, names, depth - 1)
        for name in (own if depth else ())
        for function in _functions(names, name)
        if function is not code
    )


def _steps_itself(frame: FrameType, within: CodeLoop | None, loop: CodeLoop) -> bool:
    """An optimizer steps there outside of the loops in it, and another one in this loop: its
    backward may have been forgotten."""
    code = frame.f_code
    steps = _receivers_of_steps(code)
    others = {path for offset, path in steps if loop.holds(offset)}
    own = {path for offset, path in steps if _is_outside(offset, code, within)}
    held = {**frame.f_globals, **variables_of(frame)} if others else {}
    return bool(others) and any(_is_optimizer(held, path) for path in own - others)


def _is_outside(offset: int, code: CodeType, within: CodeLoop | None) -> bool:
    """In a loop, or in a whole function, and in none of the loops there."""
    inner = [loop for loop in find_loops(code) if within is None or within.has_inside(loop)]
    return (within is None or within.holds(offset)) and not any(
        loop.holds(offset) for loop in inner
    )


@lru_cache(maxsize=MOST_USUAL)
def _receivers_of_steps(code: CodeType) -> list[tuple[int, tuple[object, ...]]]:
    """Where `step` is asked for, and of what: a variable, then keys and attributes."""
    found = []
    path: list[object] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in NAMES | LOCALS:
            path = [*_names_in(instruction)[-1:]]
        elif instruction.opname in ATTRIBUTES and "step" in _names_in(instruction):
            found.append((instruction.offset, tuple(path)))
        elif instruction.opname.startswith("LOAD_"):
            path.append(instruction.argval)
    return found


def _is_optimizer(held: Any, path: tuple[object, ...]) -> bool:
    for part in path:
        held = _part_of(held, part)
    return issubclass(type(held), torch.optim.Optimizer)


def _part_of(holder: Any, part: object) -> Any:
    if type(holder) in (list, tuple):
        inside = isinstance(part, int) and -len(holder) <= part < len(holder)
        return holder[part] if inside else None
    held: Mapping[Any, Any] = holder if type(holder) is dict else attributes_of(holder)
    return held.get(part)


def _codes(
    code: CodeType, names: dict[str, Any], depth: int, within: CodeLoop | None = None
) -> Iterator[tuple[CodeType, CodeLoop | None]]:
    """This code, or a loop of it, and that of functions that it may call."""
    yield code, within
    if depth == 0:
        return
    for name in dict.fromkeys(_loaded(code, ATTRIBUTES | NAMES, within)):
        for function in _functions(names, name):
            if function is not code:
                yield from _codes(function, names, depth - 1)


ATTRIBUTES = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
LOCALS = frozenset(
    {
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_DEREF",
    }
)


def _loaded(code: CodeType, kinds: frozenset[str], within: CodeLoop | None) -> list[str]:
    return [
        name
        for kind, offset, name in _loads(code)
        if kind in kinds and (within is None or within.holds(offset))
    ]


@lru_cache(maxsize=MOST_USUAL)
def _loads(code: CodeType) -> list[tuple[str, int, str]]:
    """The names that it loads, how, and where. Kept as loops are."""
    kinds = ATTRIBUTES | NAMES | LOCALS
    found = [
        instruction for instruction in dis.get_instructions(code) if instruction.opname in kinds
    ]
    return [(load.opname, load.offset, name) for load in found for name in _names_in(load)]


def _names_in(instruction: dis.Instruction) -> list[str]:
    """One, or two of a pair that newer Pythons handle at once."""
    named = instruction.argval
    return list(named) if isinstance(named, tuple) else [str(named)]


def _functions(names: dict[str, Any], name: str) -> list[CodeType]:
    """The code that a name may stand for: a function of the module, or a method of its classes."""
    found = [vars(value).get(name) for value in list(names.values()) if type(value) is type]
    found.append(names.get(name))
    return [code for function in found for code in _behind(function, MOST_WRAPPED)]


def _behind(function: object, depth: int) -> Iterator[CodeType]:
    """The code of a function, and of those that it wraps: a decorator's, that of `partial()`."""
    if type(function) is functools.partial:
        yield from _behind(function.func, depth)
    elif isinstance(function, MethodType | staticmethod | classmethod):
        yield from _behind(function.__func__, depth)
    elif type(function) is FunctionType:
        yield function.__code__
        for cell in function.__closure__ or () if depth else ():
            yield from _behind(_content(cell), depth - 1)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is not filled yet
        return None


class FrameToken:
    """Left on a frame to know it again; callable, as a trace function must be."""

    def __call__(self, *_: object) -> "FrameToken":
        return self


def _token(frame: FrameType) -> object:
    """Something that is the same for one frame, and another for the next call of its function."""
    if frame.f_code.co_name == "<module>":
        return None
    if frame.f_trace is None and sys.gettrace() is None:
        # Addresses of frames are reused at once; without a tracer this attribute is free.
        frame.f_trace = FrameToken()
    return frame.f_trace if isinstance(frame.f_trace, FrameToken) else None


def _values(frame: FrameType, names: tuple[str, ...]) -> tuple[object, ...]:
    if not names:
        return ()
    held = variables_of(frame)
    return tuple(_plain(held.get(name)) for name in names)


def _plain(value: object) -> object:
    return value if type(value) in (int, str, float) else id(value)
