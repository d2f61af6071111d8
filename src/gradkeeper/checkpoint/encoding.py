"""A state as JSON: what JSON can say is said plainly, the rest as {"$kind": ...}.

Types are matched exactly: a subclass may hold more than its base shows, and would come back as
less than it was. Tensors and arrays are set aside under a name; only the name enters the JSON.
"""

import base64
import math
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint.errors import UnkeepableError
from gradkeeper.checkpoint.path import Path, dotted, spelled

if TYPE_CHECKING:
    import numpy
    import torch

INT64 = range(-(2**63), 2**63)
# Far more than any state needs, and well within the recursion that Python and its JSON allow.
DEEPEST = 100
KEYS = (str, int, float, bool, type(None))
RESERVED = "__metadata__"  # safetensors' own


@dataclass
class Encoded:
    tree: Any = None
    tensors: dict[str, "torch.Tensor"] = field(default_factory=dict)


def encode(state: Any, *, root: str = "state") -> Encoded:
    """UnkeepableError names what cannot be kept, from `root` on."""
    encoder = _Encoder(root)
    encoder.result.tree = encoder.value(state, ())
    return encoder.result


def encode_plain(value: Any, *, root: str) -> Any:
    """For what is to be read without torch: no tensors, no arrays."""
    encoded = encode(value, root=root)
    if encoded.tensors:
        name = next(iter(encoded.tensors))
        raise UnkeepableError(f"{root} cannot hold a tensor or an array, and {name!r} is one")
    return encoded.tree


class _Encoder:
    def __init__(self, root: str) -> None:
        self.result = Encoded()
        self._root = root
        self._names: dict[int, str] = {}
        self._taken = {RESERVED}

    def value(self, value: Any, path: Path) -> Any:
        if len(path) > DEEPEST:
            where = self._at(path[:3])
            raise UnkeepableError(f"{where}... contains itself, or is over {DEEPEST} levels deep")
        handler = PLAIN.get(type(value))
        if handler is not None:
            return handler(value)
        inner = NESTED.get(type(value))
        if inner is not None:
            return inner(self, value, path)
        return self._third_party(value, path)

    def _at(self, path: Path) -> str:
        return spelled(self._root, path)

    def list_of(self, values: Any, path: Path) -> list[Any]:
        if _is_plain_list(values):
            return list(values)
        return [self.value(one, (*path, number)) for number, one in enumerate(values)]

    def dict_of(self, value: dict[Any, Any], path: Path) -> Any:
        for key in value:
            if type(key) not in KEYS:
                raise UnkeepableError(
                    f"{self._at(path)} has the key {key!r} of type {_name(type(key))}: "
                    "a key can be a string or a number"
                )
        if all(_is_plain_key(key) for key in value):
            return {key: self.value(one, (*path, key)) for key, one in value.items()}
        pairs = [
            [PLAIN[type(key)](key), self.value(one, (*path, key))] for key, one in value.items()
        ]
        return {"$dict": pairs}

    def ordered(self, value: Any, path: Path) -> Any:
        tree = {"$ordered": self.dict_of(value, path)}
        extra = vars(value)
        if extra.keys() - {"_metadata"}:
            raise UnkeepableError(f"{self._at(path)} has attributes of its own: {', '.join(extra)}")
        # Module.state_dict() hangs the modules' versions here, and load_state_dict reads them.
        if "_metadata" in extra:
            tree["metadata"] = self.value(extra["_metadata"], (*path, "_metadata"))
        return tree

    def keep(self, tensor: "torch.Tensor", owner: Any, path: Path) -> str:
        """The name under which it is set aside: one for the same object, wherever it stands."""
        if id(owner) not in self._names:
            name = self._free_name(dotted(path))
            self.result.tensors[name] = tensor
            self._names[id(owner)] = name
        return self._names[id(owner)]

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}~{number}"
        self._taken.add(name)
        return name

    def _third_party(self, value: Any, path: Path) -> Any:
        import numpy
        import torch

        match value:
            case torch.Tensor():
                reason = _why_not(value)
                if reason:
                    raise UnkeepableError(f"{self._at(path)} is {reason}")
                return {"$tensor": self.keep(value.detach(), value, path)}
            case numpy.ndarray() if type(value) is numpy.ndarray:
                return {"$array": self._array(value, path)}
            case numpy.generic() if value.dtype.kind in "biufc":
                return {"$scalar": [value.dtype.str, value.tobytes().hex()]}
            case torch.Size():
                return {"$size": list(value)}
            case torch.dtype():
                return {"$dtype": str(value).removeprefix("torch.")}
            case torch.device():
                return {"$device": str(value)}
        raise UnkeepableError(
            f"{self._at(path)} is a {_name(type(value))}, which cannot be kept without pickle: "
            "give its numbers, strings, lists, dicts and tensors instead"
        )

    def _array(self, value: "numpy.ndarray[Any, Any]", path: Path) -> dict[str, Any]:
        import numpy
        import torch

        if value.dtype.kind not in "biufc":
            raise UnkeepableError(
                f"{self._at(path)} is an array of {value.dtype}: only numbers can be kept"
            )
        flat = numpy.require(value, requirements=["C", "W", "A"]).reshape(-1)
        name = self.keep(torch.from_numpy(flat.view(numpy.uint8)), value, path)
        return {"tensor": name, "dtype": value.dtype.str, "shape": list(value.shape)}


def _why_not(value: "torch.Tensor") -> str:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {_name(type(value))}: give the plain tensor that it stands for"
    if value.layout is not torch.strided or value.is_nested:
        return f"a tensor of layout {value.layout}: give its dense parts"
    if value.is_quantized:
        return "a quantized tensor: give its int_repr, scale and zero point"
    if value.device.type == "meta":
        return "a tensor on the meta device, which has no values"
    return ""


def _name(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_plain_list(values: Any) -> bool:
    """The order of a million samples need not be looked at one by one."""
    return set(map(type, values)) == {int} and min(values) in INT64 and max(values) in INT64


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and not key.startswith("$") and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _int(value: int) -> Any:
    # Python refuses to print or read an int of over 4300 digits in decimal; hex is not limited.
    return value if value in INT64 else {"$int": hex(value)}


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return {"$float": "inf" if value > 0 else "-inf"}
    # The bits, because there is more than one NaN.
    return {"$float": struct.pack(">d", value).hex()}


def _str(value: str) -> Any:
    # Half a surrogate pair, as in a file name that is no UTF-8: JSON would join two of them.
    if not _is_unicode(value):
        return {"$str": value.encode("utf-8", "surrogatepass").hex()}
    return value


PLAIN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: _int,
    float: _float,
    str: _str,
    complex: lambda value: {"$complex": [_float(value.real), _float(value.imag)]},
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
}
NESTED: dict[type, Callable[[_Encoder, Any, Path], Any]] = {
    list: _Encoder.list_of,
    tuple: lambda encoder, value, path: {"$tuple": encoder.list_of(value, path)},
    dict: _Encoder.dict_of,
    OrderedDict: _Encoder.ordered,
    # MultiStepLR keeps its milestones in one.
    Counter: lambda encoder, value, path: {"$counter": encoder.dict_of(value, path)},
}
