"""Data that a program makes itself: tensors of known sizes, their rows, and datasets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import List, Slice, Tuple
from gradkeeper.lint.interpreter.objects import BuiltIn, StandIn
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Count, Provenance, Value
from gradkeeper.lint.libraries.data import Batches, Loader
from gradkeeper.lint.libraries.provenance import Fetched, Made
from gradkeeper.lint.libraries.tensors import Tensor, mix

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

Sizes = tuple[int | None, ...]


class Created(Tensor):
    """A tensor of known sizes: torch.randn(64, 3).

    Made before any loop, it is a dataset, and `places` are the rows of it that this one holds: each
    of them is data of its own. Time steps and other parts of a row are not. What a loop makes is
    the data of that round, and its rows are of the same.
    """

    __slots__ = ("places", "sizes")

    def __init__(
        self,
        text: str,
        serial: int,
        sizes: Sizes,
        others: Provenance,
        places: Sequence[int] | None = None,
    ) -> None:
        super().__init__(text, others=others, serial=serial)
        self.sizes = sizes
        self.places = places

    @property
    def size(self) -> int | None:
        return self.sizes[0] if self.sizes else None

    def length(self, m: Machine) -> Value:
        return Constant(self.size) if self.size is not None else Tensor.length(self, m)

    def endless(self) -> bool:
        return self.size is None

    def iterate(self, m: Machine) -> Iterator[Value]:
        count = 0
        while self.size is None or count < self.size:
            yield self._row(m, count)
            count += 1

    def item(self, m: Machine, key: Value) -> Value:
        first = key.values[0] if isinstance(key, Tuple) and key.values else key
        if isinstance(first, Constant) and type(first.value) is int:
            found = self._row(m, first.value)
            if first is not key:
                found.sizes = ()
            return found
        if isinstance(first, Slice) and self.size is not None:
            rows = first.rows(self.size)
            if rows is not None and not first.takes_all:
                return self.part(rows)
        made = self.like(m, reduction=None)
        made.others |= {source for source in key.sources() if isinstance(source, Fetched)}
        return made

    def _row(self, m: Machine, place: int) -> Created:
        others = self.others
        if self.places:
            others = self._of_rows(self.places[place % len(self.places)])
        elif any(isinstance(source, Fetched) for source in others):
            m.serial += 1
            others |= {Fetched(m.serial)}
        return self._of_same(0, self.sizes[1:], others, None)

    def part(self, rows: range) -> Created:
        """Some rows of it."""
        sizes = (len(rows), *self.sizes[1:])
        if self.places is None:
            return self._of_same(self.serial, sizes, self.others, None)
        places = [self.places[row] for row in rows]
        return self._of_same(self.serial, sizes, self._of_rows(*places[:1], *places[-1:]), places)

    def _of_rows(self, *places: int) -> Provenance:
        own = (source for source in self.others if not isinstance(source, Made))
        return frozenset((*own, Made((self.serial, *places))))

    def _of_same(
        self, serial: int, sizes: Sizes, others: Provenance, places: Sequence[int] | None
    ) -> Created:
        made = Created(self.text, serial, sizes, others, places)
        made.flow = self.flow | (frozenset((self.leaf,)) if self.leaf else frozenset())
        return made

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("split", "chunk") and self.size is not None:
            return BuiltIn(name, lambda call: self._split(call, name))
        if name in ("to", "cuda"):
            return BuiltIn(name, lambda call: self)
        if name in ("float", "long"):
            return BuiltIn(name, lambda call: self if self.leaf is None else self.like(m))
        if name == "view":
            return BuiltIn(name, lambda call: self if self.leaf is None else self.like(m))
        if name == "size" and self.sizes:
            return BuiltIn(name, lambda call: self._sizes_of(m).item(m, call.argument(0) or NONE))
        if name == "shape" and self.sizes:
            return self._sizes_of(m)
        return Tensor.attribute(self, m, name)

    def _sizes_of(self, m: Machine) -> Value:
        """x.shape, of which the first ones are known."""
        made = m.unknown(f"{self.text}.shape", data=True, fixed=False)
        for place, size in enumerate(self.sizes):
            if size is not None:
                m.items_of(made)[Constant(place).key] = Constant(size)
        return made

    def _split(self, call: Call, name: str) -> Value:
        number = call.argument(0, "split_size" if name == "split" else "chunks")
        dim = call.argument(1, "dim")
        if dim is not None and not (isinstance(dim, Constant) and dim.value == 0):
            return self.like(call.m)
        if isinstance(number, Constant) and isinstance(number.value, int) and number.value > 0:
            assert self.size is not None
            if name == "split":
                return Chunks(self, self.size, number.value)
            return Chunks(self, self.size, -(-self.size // number.value))
        return Loader()


class Chunks(Loader):
    """X.split(32): so many rows each."""

    __slots__ = ("each", "whole")

    def __init__(self, whole: Created, rows: int, each: int) -> None:
        super().__init__(-(-rows // each), whole)
        self.whole = whole
        self.each = each

    def iterate(self, m: Machine) -> Iterator[Value]:
        for place in range(m.shortened(self.size or 0)):
            rows = range(self.whole.size or 0)
            yield self.whole.part(rows[place * self.each : (place + 1) * self.each])


class Dataset(StandIn):
    """TensorDataset(x, y)."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: list[Value]) -> None:
        self.tensors = tensors

    def length(self, m: Machine) -> Value:
        created = (tensor for tensor in self.tensors if isinstance(tensor, Created))
        size = next((tensor.size for tensor in created), None)
        return m.unknown("len(dataset)") if size is None else Constant(size)


def tensor_dataset(call: Call) -> Value:
    return Dataset(call.args)


def batches_of(data: Value, size: Value) -> Batches | None:
    """What a DataLoader makes of tensors, so many rows at a time."""
    each = _plain(size)
    tensors = data.tensors if isinstance(data, Dataset) else [data]
    sizes = [tensor.sizes if isinstance(tensor, Created) else () for tensor in tensors]
    total = next((known[0] for known in sizes if known), None)
    if not each or (total is None and not isinstance(data, Dataset)):
        return None

    def batch(m: Machine, place: int) -> Value:
        rows = each if total is None else len(range(total)[place * each : (place + 1) * each])
        parts: list[Value] = [_made(m, "loader[i]", (rows, *known[1:])) for known in sizes]
        return List(parts) if isinstance(data, Dataset) else parts[0]

    return batch


def create(call: Call, name: str) -> Value:
    """torch.randn() and its like, by name."""
    m = call.m
    made = _made(m, name, _sizes(call, name))
    wants = call.kwargs.get("requires_grad")
    if wants is not None and wants.truth(m) is True:
        made.collect()
    elif name in ("tensor", "as_tensor") and call.args:
        made.others |= mix(m, name, call.args[0]).others
    return made


def _made(m: Machine, name: str, sizes: Sizes) -> Created:
    m.serial += 1
    source = Fetched(m.serial) if m.loops else Made(m.serial)
    places = range(sizes[0]) if sizes and sizes[0] is not None and not m.loops else None
    return Created(name, m.serial, sizes, frozenset((source,)), places)


def _sizes(call: Call, name: str) -> Sizes:
    """As far as they are known: at least the first one, or none."""
    if name == "linspace":
        count = _plain(call.argument(2, "steps") or NONE)
        return () if count is None else (count,)
    if name == "arange":
        numbers = [_plain(argument) for argument in call.args]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers) or 0 in known[2:]:
            return ()
        return (len(range(*known[:3])),)
    args = call.args[1:] if name == "randint" and len(call.args) > 1 else call.args
    if name == "randint":
        args = [argument for argument in args if not isinstance(argument, Constant)]
    if not args:
        return ()
    first = args[0]
    if isinstance(first, Created):
        return first.sizes
    if name in ("tensor", "as_tensor") or isinstance(first, Tensor):
        size = _plain(first.length(call.m))
        return () if size is None else (size,)
    held = list(first.held())
    sizes = [_plain(argument) for argument in held or args]
    return () if sizes[0] is None else tuple(sizes)


def _plain(value: Value) -> int | None:
    known = isinstance(value, Constant) and not isinstance(value, Count)
    return value.value if known and type(value.value) is int else None  # type: ignore[attr-defined]
