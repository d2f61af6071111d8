"""Plain named state on disk and back, exactly, without pickle. Knows no engine.

In the order in which to read them:

store         a folder of checkpoints: save, load, keep the newest
checkpoint    one of them: a snapshot of the state, written, and read back checked
async_save    saves that training does not wait for
codec         values as JSON and back, kind by kind
tensors       tensors as memory, that memory as a safetensors file, and back
manifest      what vouches for the rest, written last
storage       where it lives: a disk, or whatever fsspec reaches
peers         processes that save and load together
weight_files  a model's weights as others read them: safetensors, and DCP
foreign       what others wrote, read without pickle: torch.save, and DCP
compare       what differs between two states, value by value and bit by bit
checksum      CRC-32 by piece, beside the write
errors        what can go wrong, drawn as a tree
"""

from gradkeeper.checkpoint.async_save import WriteBehind
from gradkeeper.checkpoint.checkpoint import Checkpoint
from gradkeeper.checkpoint.errors import (
    AllDamagedError,
    CheckpointError,
    CheckpointWarning,
    DamagedError,
    ForeignError,
    MissingError,
    NewerFormatError,
    PeerError,
    ReadError,
    UnkeepableError,
    UnreadableError,
    WriteError,
)
from gradkeeper.checkpoint.manifest import Manifest
from gradkeeper.checkpoint.store import Store, read_checkpoint

__all__ = [
    "AllDamagedError",
    "Checkpoint",
    "CheckpointError",
    "CheckpointWarning",
    "DamagedError",
    "ForeignError",
    "Manifest",
    "MissingError",
    "NewerFormatError",
    "PeerError",
    "ReadError",
    "Store",
    "UnkeepableError",
    "UnreadableError",
    "WriteBehind",
    "WriteError",
    "read_checkpoint",
]
