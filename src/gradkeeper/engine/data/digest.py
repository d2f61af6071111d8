"""A short hash of plain values: the same in every process, other for other values."""

from hashlib import blake2b
from typing import Any

BYTES = 8


class Digest:
    """Of values that come one by one, each of them spelled."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=BYTES)

    def add(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self._hash.update(b";")

    def __str__(self) -> str:
        return self._hash.hexdigest()


def digest_of(value: Any) -> str:
    digest = Digest()
    digest.add(spelled(value))
    return str(digest)


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
