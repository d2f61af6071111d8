"""Tensors as blocks of memory, blocks as a file, and back.

Each byte is kept once, however many tensors show it: tied weights, views of one buffer and
overlapping slices come back tied as they were. A tensor is kept with its strides (channels_last
stays so), except for one that shows only some of its memory, like a column of a matrix: of that
its elements are kept, in order.

The file is in safetensors' format, which any tool for it can open. Written and read here rather
than by the library: this way it streams to any file system without a second copy in memory, is
hashed on the way and synced before it is closed, and each tensor comes back in memory of its own.
https://github.com/huggingface/safetensors#format
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from gradkeeper.checkpoint.checksum import Checksum, Chunk
from gradkeeper.checkpoint.errors import DamagedError, UnreadableError
from gradkeeper.checkpoint.storage import Sink

if TYPE_CHECKING:
    import torch

# No element is larger (complex128).
ALIGNED = 16


@dataclass(frozen=True)
class MemoryBlock:
    """A run of memory that is written as one tensor of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    itemsize: int
    memory: "torch.Tensor"  # its bytes, on whatever device they are

    @property
    def size(self) -> int:
        return self.memory.numel()


@dataclass(frozen=True)
class View:
    """How one tensor shows a block."""

    block: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0  # in bytes


@dataclass(frozen=True)
class _Span:
    """The bytes of its storage that a tensor reaches."""

    name: str
    tensor: "torch.Tensor"
    start: int
    stop: int

    @property
    def geometry(self) -> tuple[Any, ...]:
        tensor = self.tensor
        return (self.start, tensor.dtype, tensor.shape, tensor.stride())


def lay_out(tensors: Mapping[str, "torch.Tensor"]) -> tuple[list[MemoryBlock], dict[str, View]]:
    blocks: list[MemoryBlock] = []
    views: dict[str, View] = {}
    for group in _sharing(_span(name, tensor) for name, tensor in tensors.items()):
        block, start = _block(group)
        blocks.append(block)
        for span in group:
            views[span.name] = _view(span, block, start)
    return blocks, {name: views[name] for name in tensors}


def restore(views: Mapping[str, View], blocks: Mapping[str, "torch.Tensor"]) -> dict[str, Any]:
    """The tensors; what was one tensor under two names is one again. ValueError: not in there."""
    made: dict[View, torch.Tensor] = {}
    for view in views.values():
        if view not in made:
            made[view] = _show(view, blocks[view.block])
    return {name: made[view] for name, view in views.items()}


def _show(view: View, memory: "torch.Tensor") -> "torch.Tensor":
    import torch

    dtype = getattr(torch, view.dtype, None)
    if dtype is None:
        raise UnreadableError(f"this version of torch has no {view.dtype}")
    tensor = torch.empty(0, dtype=dtype, device="cpu")
    length = _reach(view.shape, view.stride) * tensor.itemsize
    # Asked here, because set_ would enlarge the memory instead of refusing.
    if view.offset + length > memory.numel() or view.offset % tensor.itemsize:
        raise ValueError(f"a tensor reaches beyond the block {view.block!r}")
    start = view.offset // tensor.itemsize
    return tensor.set_(memory.untyped_storage(), start, view.shape, view.stride)


def bytes_of(tensor: "torch.Tensor", start: int, stop: int) -> "torch.Tensor":
    """A part of its storage as bytes, without a copy."""
    import torch

    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage(), start, (stop - start,), (1,))


def _reach(shape: Iterable[int], stride: Iterable[int]) -> int:
    """How many elements of memory lie between its first and its last, both included."""
    sizes = tuple(shape)
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(sizes, stride, strict=True))


def _span(name: str, tensor: "torch.Tensor") -> _Span:
    # Conjugated, negated and zero tensors are lazy: their memory is not yet what they show.
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        tensor = tensor.resolve_conj().resolve_neg().clone()
    start = int(tensor.storage_offset()) * tensor.itemsize
    length = _reach(tensor.shape, tensor.stride()) * tensor.itemsize
    return _Span(name, tensor, start, start + length)


def _sharing(spans: Iterable[_Span]) -> list[list[_Span]]:
    """Groups of tensors that overlap in memory, most of them groups of one."""
    storages: dict[tuple[Any, int], list[_Span]] = defaultdict(list)
    groups: list[list[_Span]] = []
    for span in spans:
        if span.start == span.stop:
            groups.append([span])
        else:
            storage = span.tensor.untyped_storage()
            storages[span.tensor.device, storage.data_ptr()].append(span)
    for members in storages.values():
        groups.extend(_overlapping(members))
    return groups


def _overlapping(spans: list[_Span]) -> list[list[_Span]]:
    groups: list[list[_Span]] = []
    end = -1
    for span in sorted(spans, key=lambda span: span.start):
        if span.start < end:
            groups[-1].append(span)
        else:
            groups.append([span])
        end = max(end, span.stop)
    return groups


def _block(group: list[_Span]) -> tuple[MemoryBlock, int]:
    """The memory of a group, and where in the storage it starts."""
    first = group[0]
    alike = {span.geometry for span in group}
    elements = first.tensor.numel() * first.tensor.itemsize
    if len(alike) == 1 and first.stop - first.start > elements:
        whole = first.tensor.contiguous()
        return _named(first.name, whole, bytes_of(whole, 0, elements)), first.start
    start = min(span.start for span in group)
    stop = max(span.stop for span in group)
    for span in group:
        if (span.start, span.stop) == (start, stop) and span.tensor.is_contiguous():
            return _named(span.name, span.tensor, bytes_of(span.tensor, start, stop)), start
    return _patchwork(group, start, stop)


def _named(name: str, tensor: "torch.Tensor", memory: "torch.Tensor") -> MemoryBlock:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return MemoryBlock(name, dtype, tuple(tensor.shape), tensor.itemsize, memory)


def _patchwork(group: list[_Span], start: int, stop: int) -> tuple[MemoryBlock, int]:
    """Memory that no single tensor of the group shows whole and in order."""
    # The largest storage: memory that came from elsewhere can lie in two, one within the other.
    tensor = max(group, key=lambda span: span.tensor.untyped_storage().nbytes()).tensor
    if len({span.tensor.dtype for span in group}) > 1:
        start -= start % ALIGNED
        memory = bytes_of(tensor, start, stop)
        return MemoryBlock(group[0].name, "uint8", (stop - start,), 1, memory), start
    memory = bytes_of(tensor, start, stop)
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = (memory.numel() // tensor.itemsize,)
    return MemoryBlock(group[0].name, dtype, shape, tensor.itemsize, memory), start


def _view(span: _Span, block: MemoryBlock, start: int) -> View:
    shape = tuple(span.tensor.shape)
    dtype = str(span.tensor.dtype).removeprefix("torch.")
    offset = span.start - start
    stride = tuple(span.tensor.stride())
    if offset + _reach(shape, stride) * span.tensor.itemsize > block.size:
        stride = contiguous_stride(shape)  # only its elements were kept
    return View(block.name, dtype, shape, stride, offset)


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(size, 1)
    return tuple(reversed(steps))


def packed_view(name: str, view: View) -> dict[str, Any]:
    """For JSON, without what goes without saying: a block of its own, in the usual order."""
    facts: dict[str, Any] = {"dtype": view.dtype, "shape": list(view.shape)}
    if view.stride != contiguous_stride(view.shape):
        facts["stride"] = list(view.stride)
    if view.block != name:
        facts["in"] = view.block
    if view.offset:
        facts["offset"] = view.offset
    return facts


def view_of(name: str, facts: dict[str, Any]) -> View:
    """The way back."""
    shape = tuple(facts["shape"])
    stride = tuple(facts.get("stride") or contiguous_stride(shape))
    return View(facts.get("in", name), facts["dtype"], shape, stride, facts.get("offset", 0))


# The file

FILE = "tensors.safetensors"
CHUNK = 8 * 2**20
# What safetensors has no name for (complex128, 4-bit floats) is written as bytes.
DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


def file_of(part: int) -> str:
    """The file of a part; most checkpoints have one only."""
    return f"part-{part:05}.safetensors" if part else FILE


def in_order(blocks: Iterable[MemoryBlock]) -> list[MemoryBlock]:
    """Large elements first: then each block is aligned for whoever maps the file."""
    return sorted(blocks, key=lambda block: -block.itemsize)


def header(blocks: Iterable[MemoryBlock]) -> bytes:
    table: dict[str, Any] = {}
    end = 0
    for block in blocks:
        start, end = end, end + block.size
        dtype = DTYPES.get(block.dtype)
        shape = list(block.shape) if dtype else [block.size]
        table[block.name] = {"dtype": dtype or "U8", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write(stream: Sink, blocks: list[MemoryBlock], checksum: Checksum) -> None:
    for chunk in _gathered(_pieces(blocks)):
        checksum.update(chunk)
        write_all(stream, chunk)


def write_all(stream: Sink, chunk: Chunk) -> None:
    """A bare file may take less than it is offered, when the disk is nearly full for one."""
    rest = memoryview(chunk)
    while rest:
        taken = stream.write(rest)
        rest = rest[len(rest) if taken is None else taken :]


def _pieces(blocks: list[MemoryBlock]) -> Iterator[Chunk]:
    yield header(blocks)
    for block in blocks:
        memory = block.memory.cpu().numpy().data
        for start in range(0, len(memory), CHUNK):
            yield memory[start : start + CHUNK]


def _gathered(pieces: Iterable[Chunk]) -> Iterator[Chunk]:
    """Small pieces joined: a model of a thousand biases should not make a thousand writes."""
    small = bytearray()
    for piece in pieces:
        if len(piece) < CHUNK // 8:
            small += piece
            if len(small) < CHUNK:
                continue
            piece = b""
        if small:
            yield small
            small = bytearray()
        if piece:
            yield piece
    if small:
        yield small


def read(stream: IO[bytes], size: int, checksum: Checksum) -> dict[str, "torch.Tensor"]:
    """Each block's bytes, by name. Not to be believed before the checksum has been compared."""
    import torch

    length = int.from_bytes(_take(stream, 8, checksum), "little")
    if length > size - 8:
        raise DamagedError("its header is not one")
    blocks = {}
    for name, count in _table(_take(stream, length, checksum), size - 8 - length):
        memory = torch.empty(count, dtype=torch.uint8, device="cpu")
        _fill(stream, memory.numpy().data, checksum)
        blocks[name] = memory
    return blocks


def block_starts(stream: IO[bytes]) -> dict[str, int]:
    """Where in the file each block begins."""
    length = int.from_bytes(stream.read(8), "little")
    table = json.loads(stream.read(length))
    return {name: 8 + length + int(facts["data_offsets"][0]) for name, facts in table.items()}


def read_one(stream: IO[bytes], view: View, start: int) -> "torch.Tensor":
    """One tensor of the file, in memory of its own; its block begins at `start`."""
    import torch

    itemsize = torch.empty(0, dtype=getattr(torch, view.dtype)).itemsize
    length = _reach(view.shape, view.stride) * itemsize
    memory = torch.empty(length, dtype=torch.uint8, device="cpu")
    stream.seek(start + view.offset)
    rest = memory.numpy().data
    while rest:
        count = stream.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise DamagedError("it ends too early")
        rest = rest[count:]
    return _show(replace(view, offset=0), memory)


def _table(text: bytes, room: int) -> list[tuple[str, int]]:
    """Names and sizes in the order of the file, which they must fill without a gap."""
    try:
        spans = {name: facts["data_offsets"] for name, facts in json.loads(text).items()}
        sizes = [(name, stop - start) for name, (start, stop) in spans.items()]
        ends = [0, *(stop for _, stop in spans.values())]
        if ends[-1] == room and all(
            start == ends[at] for at, (start, _) in enumerate(spans.values())
        ):
            return sizes
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DamagedError("its header is not one")


def _take(stream: IO[bytes], count: int, checksum: Checksum) -> bytes:
    memory = bytearray(count)
    _fill(stream, memoryview(memory), checksum)
    return bytes(memory)


def _fill(stream: Any, memory: memoryview, checksum: Checksum) -> None:
    for start in range(0, len(memory), CHUNK):
        rest = memory[start : start + CHUNK]
        part = rest
        while rest:
            count = stream.readinto(rest)
            if not count:
                raise DamagedError("it ends too early")
            rest = rest[count:]
        checksum.update(part)
