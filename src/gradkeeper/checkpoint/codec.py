"""A state as JSON and back: what JSON can say is said plainly, the rest as {"$kind": ...}.

Types are matched exactly: a subclass may hold more than its base shows, and would come back as
less than it was. Tensors and arrays are set aside under a name; only the name enters the JSON.
Each kind is written and read side by side, further down.
"""

import base64
import math
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint.errors import UnkeepableError

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


def decode(tree: Any, tensors: Mapping[str, Any]) -> Any:
    """The state; KeyError or ValueError where the tree is none."""
    if isinstance(tree, list):
        return [decode(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next(iter(tree), "")
    if not tag.startswith("$"):
        return {key: decode(item, tensors) for key, item in tree.items()}
    if tag in READ_NESTED:
        return READ_NESTED[tag](tree, tensors)
    return READ_PLAIN[tag](tree[tag])


# Where a value stands: the keys that lead to it

KeyPath = tuple[Any, ...]


def spelled(root: str, path: KeyPath) -> str:
    """As one would write it: `state['optimizer']['state'][0]`."""
    return root + "".join(f"[{key!r}]" for key in path)


def dotted(path: KeyPath) -> str:
    """As a tensor is named in its file: `optimizer.state.0`."""
    name = ".".join(_word(key) for key in path) or "state"
    return name.encode("utf-8", "backslashreplace").decode()


def _word(key: Any) -> str:
    # Python refuses to print an int of over 4300 digits in decimal.
    return hex(key) if isinstance(key, int) and key.bit_length() > 64 else str(key)


class _Encoder:
    def __init__(self, root: str) -> None:
        self.result = Encoded()
        self._root = root
        self._names: dict[int, str] = {}
        self._taken = {RESERVED}

    def value(self, value: Any, path: KeyPath) -> Any:
        if len(path) > DEEPEST:
            where = self.at(path[:3])
            raise UnkeepableError(f"{where}... contains itself, or is over {DEEPEST} levels deep")
        plain = WRITE_PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        nested = WRITE_NESTED.get(type(value))
        if nested is not None:
            return nested(self, value, path)
        return self._third_party(value, path)

    def at(self, path: KeyPath) -> str:
        return spelled(self._root, path)

    def keep(self, tensor: "torch.Tensor", owner: Any, path: KeyPath) -> str:
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

    def _third_party(self, value: Any, path: KeyPath) -> Any:
        import numpy
        import torch

        match value:
            case torch.Tensor():
                return _write_tensor(self, value, path)
            case numpy.ndarray() if type(value) is numpy.ndarray:
                return _write_array(self, value, path)
            case numpy.generic() if value.dtype.kind in "biufc":
                return _write_scalar(value)
            case torch.Size():
                return {"$size": list(value)}
            case torch.dtype():
                return {"$dtype": str(value).removeprefix("torch.")}
            case torch.device():
                return {"$device": str(value)}
        raise UnkeepableError(
            f"{self.at(path)} is a {_name(type(value))}, which cannot be kept without pickle: "
            "give its numbers, strings, lists, dicts and tensors instead"
        )


def _name(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


# Numbers and texts that JSON has no word for


def _write_int(value: int) -> Any:
    # Python refuses to print or read an int of over 4300 digits in decimal; hex is not limited.
    return value if value in INT64 else {"$int": hex(value)}


def _read_int(text: str) -> int:
    return int(text, 16)


def _write_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return {"$float": "inf" if value > 0 else "-inf"}
    # The bits, because there is more than one NaN.
    return {"$float": struct.pack(">d", value).hex()}


def _read_float(text: str) -> float:
    if text in ("inf", "-inf"):
        return float(text)
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def _write_complex(value: complex) -> Any:
    return {"$complex": [_write_float(value.real), _write_float(value.imag)]}


def _read_complex(parts: list[Any]) -> complex:
    real, imaginary = (decode(part, {}) for part in parts)
    return complex(real, imaginary)


def _write_str(value: str) -> Any:
    # Half a surrogate pair, as in a file name that is no UTF-8: JSON would join two of them.
    if not _is_unicode(value):
        return {"$str": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _read_str(text: str) -> str:
    return bytes.fromhex(text).decode("utf-8", "surrogatepass")


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _write_bytes(value: bytes) -> Any:
    return {"$bytes": base64.b64encode(value).decode()}


def _read_bytes(text: str) -> bytes:
    return base64.b64decode(text)


# Lists and dicts


def _write_list(encoder: _Encoder, values: Any, path: KeyPath) -> list[Any]:
    if _is_plain_list(values):
        return list(values)
    return [encoder.value(item, (*path, number)) for number, item in enumerate(values)]


def _is_plain_list(values: Any) -> bool:
    """The order of a million samples need not be looked at one by one."""
    return set(map(type, values)) == {int} and min(values) in INT64 and max(values) in INT64


def _write_tuple(encoder: _Encoder, values: Any, path: KeyPath) -> Any:
    return {"$tuple": _write_list(encoder, values, path)}


def _read_tuple(tree: Any, tensors: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(decode(tree["$tuple"], tensors))


def _write_dict(encoder: _Encoder, value: dict[Any, Any], path: KeyPath) -> Any:
    for key in value:
        if type(key) not in KEYS:
            raise UnkeepableError(
                f"{encoder.at(path)} has the key {key!r} of type {_name(type(key))}: "
                "a key can be a string or a number"
            )
    if all(_is_plain_key(key) for key in value):
        return {key: encoder.value(item, (*path, key)) for key, item in value.items()}
    pairs = [
        [WRITE_PLAIN[type(key)](key), encoder.value(item, (*path, key))]
        for key, item in value.items()
    ]
    return {"$dict": pairs}


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and not key.startswith("$") and _is_unicode(key)


def _read_dict(tree: Any, tensors: Mapping[str, Any]) -> dict[Any, Any]:
    return {decode(key, tensors): decode(item, tensors) for key, item in tree["$dict"]}


def _write_ordered(encoder: _Encoder, value: Any, path: KeyPath) -> Any:
    tree = {"$ordered": _write_dict(encoder, value, path)}
    extra = vars(value)
    if extra.keys() - {"_metadata"}:
        raise UnkeepableError(f"{encoder.at(path)} has attributes of its own: {', '.join(extra)}")
    # Module.state_dict() hangs the modules' versions here, and load_state_dict reads them.
    if "_metadata" in extra:
        tree["metadata"] = encoder.value(extra["_metadata"], (*path, "_metadata"))
    return tree


def _read_ordered(tree: Any, tensors: Mapping[str, Any]) -> Any:
    value: Any = OrderedDict(decode(tree["$ordered"], tensors))
    if "metadata" in tree:
        value._metadata = decode(tree["metadata"], tensors)
    return value


def _write_counter(encoder: _Encoder, value: Any, path: KeyPath) -> Any:
    return {"$counter": _write_dict(encoder, value, path)}


def _read_counter(tree: Any, tensors: Mapping[str, Any]) -> Any:
    return Counter(decode(tree["$counter"], tensors))


# What torch and numpy have


def _write_tensor(encoder: _Encoder, value: "torch.Tensor", path: KeyPath) -> Any:
    reason = _why_not(value)
    if reason:
        raise UnkeepableError(f"{encoder.at(path)} is {reason}")
    return {"$tensor": encoder.keep(value.detach(), value, path)}


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


def _read_tensor(tree: Any, tensors: Mapping[str, Any]) -> Any:
    return tensors[tree["$tensor"]]


def _write_array(encoder: _Encoder, value: "numpy.ndarray[Any, Any]", path: KeyPath) -> Any:
    import numpy
    import torch

    if value.dtype.kind not in "biufc":
        raise UnkeepableError(
            f"{encoder.at(path)} is an array of {value.dtype}: only numbers can be kept"
        )
    flat = numpy.require(value, requirements=["C", "W", "A"]).reshape(-1)
    name = encoder.keep(torch.from_numpy(flat.view(numpy.uint8)), value, path)
    return {"$array": {"tensor": name, "dtype": value.dtype.str, "shape": list(value.shape)}}


def _read_array(tree: Any, tensors: Mapping[str, Any]) -> Any:
    import numpy

    facts = tree["$array"]
    flat = tensors[facts["tensor"]].numpy()
    return flat.view(numpy.dtype(facts["dtype"])).reshape(facts["shape"])


def _write_scalar(value: "numpy.generic") -> Any:
    return {"$scalar": [value.dtype.str, value.tobytes().hex()]}


def _read_scalar(parts: list[str]) -> Any:
    import numpy

    kind, bits = parts
    return numpy.frombuffer(bytes.fromhex(bits), dtype=numpy.dtype(kind))[0]


def _read_size(sizes: list[int]) -> Any:
    import torch

    return torch.Size(sizes)


def _read_dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


def _read_device(name: str) -> Any:
    import torch

    return torch.device(name)


# torch and numpy are imported where one of their values is met: see `_Encoder._third_party`.
WRITE_PLAIN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: _write_int,
    float: _write_float,
    complex: _write_complex,
    str: _write_str,
    bytes: _write_bytes,
}
READ_PLAIN: dict[str, Callable[[Any], Any]] = {
    "$int": _read_int,
    "$float": _read_float,
    "$complex": _read_complex,
    "$str": _read_str,
    "$bytes": _read_bytes,
    "$scalar": _read_scalar,
    "$size": _read_size,
    "$dtype": _read_dtype,
    "$device": _read_device,
}
WRITE_NESTED: dict[type, Callable[[_Encoder, Any, KeyPath], Any]] = {
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    OrderedDict: _write_ordered,
    Counter: _write_counter,  # MultiStepLR keeps its milestones in one
}
READ_NESTED: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "$tuple": _read_tuple,
    "$dict": _read_dict,
    "$ordered": _read_ordered,
    "$counter": _read_counter,
    "$tensor": _read_tensor,
    "$array": _read_array,
}
