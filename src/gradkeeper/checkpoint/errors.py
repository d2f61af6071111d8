"""What can go wrong between a state and its folder.

CheckpointError
├── UnkeepableError       a value that cannot be kept without pickle; says where and of which type
├── WriteError            a save that did not become durable; the ones before it still are
├── PeerError             another of the processes that save or load together failed
└── ReadError             nothing that can be gone on from
    ├── MissingError          there is no such checkpoint, or none at all
    ├── ForeignError          a folder or file that gradkeeper did not write
    ├── NewerFormatError      written by a gradkeeper that knows more than this one
    ├── DamagedError          truncated, altered, incomplete, or another checkpoint's file
    ├── AllDamagedError       the folder holds checkpoints, and not one of them is good
    └── UnreadableError       the file system refuses: that says nothing about the checkpoint

CheckpointWarning         what goes on, but should be known
"""


class CheckpointError(RuntimeError):
    pass


class UnkeepableError(CheckpointError, TypeError):
    pass


class WriteError(CheckpointError):
    pass


class PeerError(CheckpointError):
    pass


class ReadError(CheckpointError):
    pass


class MissingError(ReadError):
    pass


class ForeignError(ReadError):
    pass


class NewerFormatError(ReadError):
    pass


class DamagedError(ReadError):
    pass


class AllDamagedError(ReadError):
    pass


class UnreadableError(ReadError):
    pass


class CheckpointWarning(UserWarning):
    pass
