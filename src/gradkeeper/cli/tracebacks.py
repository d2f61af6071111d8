"""A traceback of the user's program, without the lines of ours that called or watched it."""

import os
import runpy
import sys
from types import TracebackType

import gradkeeper

STARTING = frozenset({runpy.__file__, "<frozen runpy>"})
"""Files of Python's own whose lines call the program."""
OURS = tuple(
    os.path.join(os.path.dirname(gradkeeper.__file__), *part)
    for part in (("watcher", ""), ("cli", ""))
)
"""Folders whose lines call the program, or stand between its own and torch's."""


def show_traceback() -> None:
    """Of the exception that is being handled, as Python would show it."""
    kind, error, _ = sys.exc_info()
    if kind is None or error is None:
        return
    sys.stdout.flush()
    _hide_ours(error)
    sys.excepthook(kind, error, error.__traceback__)


def _hide_ours(error: BaseException) -> None:
    """In an exception and all that led to it."""
    chain_of: list[BaseException | None] = [error]
    known: set[int] = set()
    while chain_of:
        link = chain_of.pop()
        if link is None or id(link) in known:
            continue
        known.add(id(link))
        link.__traceback__ = _users(link.__traceback__)
        chain_of += [link.__cause__, link.__context__]


def _users(trace: TracebackType | None) -> TracebackType | None:
    first = trace
    while first is not None and (_file(first) in STARTING or _file(first).startswith(OURS)):
        first = first.tb_next
    kept = []
    while first is not None:
        if not _file(first).startswith(OURS):
            kept.append(first)
        first = first.tb_next
    rest: TracebackType | None = None
    for traceback in reversed(kept):
        rest = TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
    return rest


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename
