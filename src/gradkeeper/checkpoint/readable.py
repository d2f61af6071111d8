"""JSON for people: what fits on a line stands on one, numbers stay together."""

import json
from typing import Any

WIDTH = 96


def readable(value: Any, margin: str = "") -> str:
    inner = margin + " "
    if isinstance(value, dict):
        parts = [f"{_scalar(key)}: {readable(one, inner)}" for key, one in value.items()]
        return _joined("{}", parts, margin)
    if isinstance(value, list):
        if not any(isinstance(one, dict | list) for one in value):
            return _scalar(value)
        return _joined("[]", [readable(one, inner) for one in value], margin)
    return _scalar(value)


def _scalar(value: Any) -> str:
    """On one line, however long."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _joined(ends: str, parts: list[str], margin: str) -> str:
    line = ", ".join(parts)
    if len(line) < WIDTH and "\n" not in line:
        return ends[0] + line + ends[1]
    lines = f",\n{margin} ".join(parts)
    return f"{ends[0]}\n{margin} {lines}\n{margin}{ends[1]}"
