"""The file of tensors, in safetensors' format, which any tool for it can open.

Written and read here rather than by the library: this way it streams to any file system without
a second copy in memory, is hashed on the way and synced before it is closed, and each tensor comes
back in memory of its own. https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

from gradkeeper.checkpoint.digest import Chunk, Digest
from gradkeeper.checkpoint.errors import DamagedError
from gradkeeper.checkpoint.layout import Block
from gradkeeper.checkpoint.place import Sink

if TYPE_CHECKING:
    import torch

NAME = "tensors.safetensors"
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


def name_of(part: int) -> str:
    """Of the file of a part; most checkpoints have one only."""
    return f"part-{part:05}.safetensors" if part else NAME


def in_order(blocks: Iterable[Block]) -> list[Block]:
    """Large elements first: then each block is aligned for whoever maps the file."""
    return sorted(blocks, key=lambda block: -block.itemsize)


def header(blocks: Iterable[Block]) -> bytes:
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


def write(stream: Sink, blocks: list[Block], digest: Digest) -> None:
    for chunk in _gathered(_pieces(blocks)):
        digest.update(chunk)
        write_all(stream, chunk)


def write_all(stream: Sink, chunk: Chunk) -> None:
    """A bare file may take less than it is offered, when the disk is nearly full for one."""
    rest = memoryview(chunk)
    while rest:
        taken = stream.write(rest)
        rest = rest[len(rest) if taken is None else taken :]


def _pieces(blocks: list[Block]) -> Iterator[Chunk]:
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


def read(stream: IO[bytes], size: int, digest: Digest) -> dict[str, "torch.Tensor"]:
    """Each block's bytes, by name. Not to be believed before the digest has been compared."""
    import torch

    length = int.from_bytes(_take(stream, 8, digest), "little")
    if length > size - 8:
        raise DamagedError("its header is not one")
    blocks = {}
    for name, count in _table(_take(stream, length, digest), size - 8 - length):
        memory = torch.empty(count, dtype=torch.uint8, device="cpu")
        _fill(stream, memory.numpy().data, digest)
        blocks[name] = memory
    return blocks


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


def _take(stream: IO[bytes], count: int, digest: Digest) -> bytes:
    memory = bytearray(count)
    _fill(stream, memoryview(memory), digest)
    return bytes(memory)


def _fill(stream: Any, memory: memoryview, digest: Digest) -> None:
    for start in range(0, len(memory), CHUNK):
        rest = memory[start : start + CHUNK]
        part = rest
        while rest:
            count = stream.readinto(rest)
            if not count:
                raise DamagedError("it ends too early")
            rest = rest[count:]
        digest.update(part)
