"""Plain named state on disk and back, exactly, without pickle. Knows no engine.

store      a folder of checkpoints      behind     saves that training does not wait for
writing    one of them, written         reading    one of them, checked and read
encoding   values as JSON               decoding   and back
layout     tensors as memory            tensor_file  that memory as safetensors
manifest   what vouches for the rest    place      where it lives: disk, remote
peers      processes that save together
compare    what differs between two     errors     what can go wrong
"""

from gradkeeper.checkpoint.behind import WriteBehind
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
from gradkeeper.checkpoint.reading import Checkpoint
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
