"""`warnings.warn`: a warning of torch's names the line of the user's that it is about.

torch counts frames to find it (`stacklevel`), and those of our taps lie in between.
"""

import os
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from gradkeeper.watcher.patches import Undo, replace_everywhere
from gradkeeper.watcher.taps.call import Calls

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def tap(calls: Calls) -> list[Undo]:
    return [replace_everywhere(warnings, "warn", _warn)]


def _warn(original: Callable[..., None]) -> Callable[..., None]:
    if original.__module__ == __name__:
        return original  # of a watch around this one: once is enough

    def warn(
        message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **options: Any
    ) -> None:
        level = _past_ours(sys._getframe(1), stacklevel)
        original(message, category, level + 1, source, **options)

    return warn


def _past_ours(caller: FrameType, level: int) -> int:
    """The level from `caller` on that leaves out our frames, as one that counts them all."""
    frame: FrameType | None = caller.f_back
    reached = passed = 1
    while frame is not None and reached < level:
        name = frame.f_code.co_filename
        if not ("importlib" in name and "_bootstrap" in name):  # which Python leaves out itself
            passed += 1
            reached += not name.startswith(OURS)
        frame = frame.f_back
    return passed + level - reached
