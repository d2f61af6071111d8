"""The user's line that led here; frames of ours, torch and the standard library are passed."""

import os
import sys
import sysconfig
from itertools import islice
from types import CodeType, FrameType

from gradkeeper.model import Site

NOWHERE = Site("<unknown>", 1)
# Code that is made anew by exec in a loop must not fill memory.
MOST_SITES = 8192

_OURS = os.path.dirname(os.path.abspath(__file__))
_STDLIB = sysconfig.get_path("stdlib")
_PASSED = (_OURS + os.sep, _STDLIB + os.sep)

_users: dict[str, bool] = {}
# By the address of the code, which the value keeps alive: hashing code is slow.
_known: dict[tuple[int, int], tuple[CodeType, Site]] = {}


def user_site() -> Site:
    """For Journal.here, called by the engine's entries: the three nearest frames are ours."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        file = frame.f_code.co_filename
        if _users.get(file) or _is_users(file):
            break
        frame = frame.f_back
    if frame is None:
        return NOWHERE
    key = (id(frame.f_code), frame.f_lasti)
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_SITES:
            _known.clear()
        known = _known[key] = (frame.f_code, _site(frame))
    return known[1]


def _is_users(file: str) -> bool:
    known = _users.get(file)
    if known is None:
        path = os.path.abspath(file)
        library = "site-packages" in path or "dist-packages" in path or file.startswith("<frozen")
        known = _users[file] = not library and not path.startswith(_PASSED)
    return known


def _site(frame: FrameType) -> Site:
    code = frame.f_code
    place = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    column = place[2] or 0
    file = code.co_filename
    return Site(
        file=file if file.startswith("<") else os.path.abspath(file),
        line=frame.f_lineno,
        column=column + 1,
        function=code.co_qualname,
    )
