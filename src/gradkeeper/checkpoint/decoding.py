"""JSON as a state: the way back from `encoding`, kind by kind."""

import base64
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any


def decode(tree: Any, tensors: Mapping[str, Any]) -> Any:
    """The state; KeyError or ValueError where the tree is none."""
    if isinstance(tree, list):
        return [decode(one, tensors) for one in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next(iter(tree), "")
    if not tag.startswith("$"):
        return {key: decode(one, tensors) for key, one in tree.items()}
    if tag in INNER:
        return INNER[tag](tree, tensors)
    return PLAIN[tag](tree[tag])


def _dict(tree: Any, tensors: Mapping[str, Any]) -> dict[Any, Any]:
    return {decode(key, tensors): decode(one, tensors) for key, one in tree["$dict"]}


def _ordered(tree: Any, tensors: Mapping[str, Any]) -> Any:
    value: Any = OrderedDict(decode(tree["$ordered"], tensors))
    if "metadata" in tree:
        value._metadata = decode(tree["metadata"], tensors)
    return value


def _array(tree: Any, tensors: Mapping[str, Any]) -> Any:
    import numpy

    facts = tree["$array"]
    flat = tensors[facts["tensor"]].numpy()
    return flat.view(numpy.dtype(facts["dtype"])).reshape(facts["shape"])


def _float(text: str) -> float:
    if text in ("inf", "-inf"):
        return float(text)
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def _complex(parts: list[Any]) -> complex:
    real, imaginary = (decode(part, {}) for part in parts)
    return complex(real, imaginary)


def _scalar(parts: list[str]) -> Any:
    import numpy

    kind, bits = parts
    return numpy.frombuffer(bytes.fromhex(bits), dtype=numpy.dtype(kind))[0]


def _size(sizes: list[int]) -> Any:
    import torch

    return torch.Size(sizes)


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


def _device(name: str) -> Any:
    import torch

    return torch.device(name)


INNER: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "$tensor": lambda tree, tensors: tensors[tree["$tensor"]],
    "$array": _array,
    "$tuple": lambda tree, tensors: tuple(decode(tree["$tuple"], tensors)),
    "$dict": _dict,
    "$ordered": _ordered,
    "$counter": lambda tree, tensors: Counter(decode(tree["$counter"], tensors)),
}
PLAIN: dict[str, Callable[[Any], Any]] = {
    "$int": lambda text: int(text, 16),
    "$float": _float,
    "$complex": _complex,
    "$bytes": base64.b64decode,
    "$str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "$scalar": _scalar,
    "$size": _size,
    "$dtype": _dtype,
    "$device": _device,
}
