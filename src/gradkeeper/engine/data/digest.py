"""A short hash of plain values: the same in every process, other for other values."""

from hashlib import blake2b
from typing import Any

BYTES = 8


def digest_of(value: Any) -> str:
    return blake2b(spelled(value).encode("utf-8", "surrogatepass"), digest_size=BYTES).hexdigest()


def spelled(value: Any) -> str:
    """No address of an object is in it: of what is not plain, only the type."""
    match value:
        case int() | float() | str() | bytes() | None:
            return repr(value)
        case list() | tuple():
            if set(map(type, value)) == {int}:
                return repr(list(value))  # a batch's indices, ten times as fast
            return f"[{','.join(map(spelled, value))}]"
        case dict():
            pairs = (f"{spelled(key)}:{spelled(one)}" for key, one in value.items())
            return f"{{{','.join(pairs)}}}"
        case _ if hasattr(value, "tolist"):
            return repr(value.tolist())
    return type(value).__qualname__
