"""How a checkpoint differs from the run that would go on from it, in words."""

from typing import Any

from gradkeeper.engine.errors import ResumeError
from gradkeeper.tree import NOTHING, differences

MOST = 12


def refuse_difference(what: str, saved: Any, here: Any) -> None:
    """Raises if the two descriptions differ, and says where."""
    lines = [
        f"{path}: {_word(one)} in the checkpoint, {_word(other)} here"
        for path, one, other in differences(saved, here)
    ]
    if not lines:
        return
    shown = "".join(f"\n  {line}" for line in lines[:MOST])
    more = f"\n  and {len(lines) - MOST} more" if len(lines) > MOST else ""
    raise ResumeError(f"{what}:{shown}{more}")


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
