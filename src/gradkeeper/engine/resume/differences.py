"""How a checkpoint differs from the run that would go on from it, in words."""

from collections.abc import Iterator
from typing import Any

from gradkeeper.engine.errors import ResumeError

MOST = 12
NOTHING = object()


def refuse_difference(what: str, saved: Any, here: Any) -> None:
    """Raises if the two descriptions differ, and says where."""
    lines = list(_lines(saved, here, ""))
    if not lines:
        return
    shown = "".join(f"\n  {line}" for line in lines[:MOST])
    more = f"\n  and {len(lines) - MOST} more" if len(lines) > MOST else ""
    raise ResumeError(f"{what}:{shown}{more}")


def _lines(saved: Any, here: Any, path: str) -> Iterator[str]:
    if isinstance(saved, dict) and isinstance(here, dict):
        for key in {**saved, **here}:
            yield from _lines(saved.get(key, NOTHING), here.get(key, NOTHING), _joined(path, key))
    elif isinstance(saved, list) and isinstance(here, list) and len(saved) == len(here):
        for number, (one, other) in enumerate(zip(saved, here, strict=True)):
            yield from _lines(one, other, f"{path}[{number}]")
    elif saved != here:
        yield f"{path}: {_word(saved)} in the checkpoint, {_word(here)} here"


def _joined(path: str, key: Any) -> str:
    return f"{path} {key}" if path else str(key)


def _word(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    if isinstance(value, list) and not all(isinstance(one, str | int) for one in value):
        return f"{len(value)} of them"
    if isinstance(value, list | tuple):
        text = ", ".join(str(one) for one in value)
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
