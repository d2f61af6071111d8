"""The user's line that led here; frames of ours, torch and the standard library are passed over.

Stands on nothing but model: engine, watcher and prove may use it.
"""

import os
import sys
import sysconfig
from itertools import islice
from types import CodeType, FrameType

from gradkeeper.model import Site

NOWHERE = Site("<unknown>", 1)
# Code that is made anew by exec in a loop must not fill memory.
MOST_SITES = 8192

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The package's folder."""
_PASSED = (OURS, sysconfig.get_path("stdlib") + os.sep)

_users: dict[str, bool] = {}
# By the address of the code, which the value keeps alive: hashing code is slow.
_known: dict[tuple[int, int], tuple[CodeType, Site]] = {}


def user_site(depth: int = 1) -> Site:
    """`depth`: so many of the nearest frames are known to be ours, and need not be looked at."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        file = frame.f_code.co_filename
        if _users.get(file) or is_users(file):
            break
        frame = frame.f_back
    return NOWHERE if frame is None else site_of(frame)


def calling_site(folder: str) -> Site | None:
    """For what wraps a function of torch: the user's line that called it, None if a file of ours in
    that folder did.

    The nearest two frames are this one's and the wrapper's.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(folder):
            return None
        if _users.get(file) or is_users(file):
            return site_of(frame)
        frame = frame.f_back
    return NOWHERE


def spoken(site: Site) -> str:
    """Where it is, as one would say it in the folder that the program runs in."""
    here = os.getcwd() + os.sep
    return f"{site.file.removeprefix(here)}:{site.line}"


def is_users(file: str) -> bool:
    known = _users.get(file)
    if known is None:
        path = os.path.abspath(file)
        library = "site-packages" in path or "dist-packages" in path or file.startswith("<frozen")
        known = _users[file] = not library and not path.startswith(_PASSED)
    return known


def site_of(frame: FrameType) -> Site:
    key = (id(frame.f_code), frame.f_lasti)
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_SITES:
            _known.clear()
        known = _known[key] = (frame.f_code, _site(frame))
    return known[1]


def _site(frame: FrameType) -> Site:
    code = frame.f_code
    _, _, column, _ = position_of(frame)
    file = code.co_filename
    return Site(
        file=file if file.startswith("<") else os.path.abspath(file),
        line=frame.f_lineno,
        column=(column or 0) + 1,
        function=code.co_qualname,
    )


def position_of(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """Of what runs in a frame: its first and last line, its first and last column."""
    positions = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    return next(positions, (None, None, None, None))
