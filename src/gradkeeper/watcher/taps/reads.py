"""Reads and assignments of `.grad` by the user's own code, while no steady state is known.

A property on torch.nn.Parameter tells them. It is taken away as soon as the loop is steady, so
that it costs nothing where time counts.
"""

import dis
import sys
import threading
from types import CodeType, FrameType
from typing import Any, Literal

import torch

from gradkeeper.torch_private import keep_from_compiler
from gradkeeper.watcher.taps.call import Calls

Use = Literal["read", "test", "change", "clear"]
"""What follows on a look at `.grad`: its value is used, it is compared with None, it is changed in
place, it is zeroed."""
CLEARS = ("zero_",)
AHEAD = 4
GRAD: Any = torch.Tensor.grad


class Reads:
    """The property, put in place and taken away again."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._uses: dict[tuple[int, int], tuple[CodeType, Use]] = {}

    def place(self) -> None:
        global _listening
        with _lock:
            if self in _listening:
                return
            _listening = (*_listening, self)
            if len(_listening) == 1:
                torch.nn.Parameter.grad = property(_get, _set, _delete)  # type: ignore[assignment]

    def remove(self) -> None:
        global _listening
        with _lock:
            if self not in _listening:
                return
            _listening = tuple(listener for listener in _listening if listener is not self)
            if not _listening:
                del torch.nn.Parameter.grad

    @keep_from_compiler
    def heard(self, parameter: torch.Tensor, frame: FrameType) -> None:
        recorder = self._calls.recorder()
        if recorder is None or not recorder.sites.is_user(frame.f_code):
            return
        use = self._use(frame.f_code, frame.f_lasti)
        if use == "clear":
            self._calls.tell(recorder.manual.clearing, parameter, recorder.sites.of(frame))
        elif use == "read":
            self._calls.tell(recorder.manual.read, parameter, recorder.sites.of(frame))

    @keep_from_compiler
    def told(self, parameter: torch.Tensor, frame: FrameType, *, to_none: bool) -> None:
        recorder = self._calls.recorder()
        if recorder is not None and recorder.sites.is_user(frame.f_code):
            tell = recorder.manual.clearing if to_none else recorder.manual.assigning
            self._calls.tell(tell, parameter, recorder.sites.of(frame))

    def _use(self, code: CodeType, offset: int) -> Use:
        known = self._uses.get((id(code), offset))
        if known is None:
            known = self._uses[id(code), offset] = (code, _use_at(code, offset))
        return known[1]


_lock = threading.Lock()
_listening: tuple[Reads, ...] = ()
"""There may be several watches, and there is one property for all of them."""


@keep_from_compiler
def _get(parameter: torch.Tensor) -> Any:
    frame = sys._getframe(1)
    for reads in _listening:
        reads.heard(parameter, frame)
    return GRAD.__get__(parameter)


@keep_from_compiler
def _set(parameter: torch.Tensor, value: Any) -> None:
    GRAD.__set__(parameter, value)
    frame = sys._getframe(1)
    for reads in _listening:
        reads.told(parameter, frame, to_none=value is None)


@keep_from_compiler
def _delete(parameter: torch.Tensor) -> None:
    GRAD.__delete__(parameter)


def _use_at(code: CodeType, offset: int) -> Use:
    instructions = list(dis.get_instructions(code))
    place = next(n for n, found in enumerate(instructions) if found.offset == offset)
    if place and instructions[place - 1].opname == "COPY":
        return "change"  # p.grad /= n, which Python reads and then assigns
    for instruction in instructions[place + 1 : place + 1 + AHEAD]:
        if instruction.argval in CLEARS:
            return "clear"
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and _is_in_place(instruction.argval):
            return "change"
        if "NONE" in instruction.opname or instruction.opname == "IS_OP":
            return "test"
        if instruction.opname not in ("LOAD_ATTR", "LOAD_METHOD", "CACHE", "LOAD_CONST"):
            return "read"
    return "read"


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.startswith("_")
