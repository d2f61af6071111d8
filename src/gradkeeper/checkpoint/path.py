"""Where a value stands in a state: the keys that lead to it."""

from typing import Any

Path = tuple[Any, ...]


def spelled(root: str, path: Path) -> str:
    """As one would write it: `state['optimizer']['state'][0]`."""
    return root + "".join(f"[{key!r}]" for key in path)


def dotted(path: Path) -> str:
    """As a tensor is named in its file: `optimizer.state.0`."""
    name = ".".join(_word(key) for key in path) or "state"
    return name.encode("utf-8", "backslashreplace").decode()


def _word(key: Any) -> str:
    # Python refuses to print an int of over 4300 digits in decimal.
    return hex(key) if isinstance(key, int) and key.bit_length() > 64 else str(key)
