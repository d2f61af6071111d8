"""The tapes of all ranks, brought to rank 0 through the launcher's store, for one statement."""

import os
import zlib
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

from gradkeeper.model.events import Measure
from gradkeeper.model.tape import Tape, read_file
from gradkeeper.watcher.gather import store_of_launcher

MOST_BYTES = 4 << 20
"""Of a tape, compressed; torch's store takes 8 MiB at once. A longer one stays where it is."""


def send(tape: Path) -> bool:
    """False if it is too long. To be called before this rank's findings are sent: who hears those
    has the tape already."""
    packed = zlib.compress(_without_layers(tape).encode("utf-8", "surrogateescape"))
    if len(packed) > MOST_BYTES:
        return False
    with suppress(Exception):  # a launcher that has ended; the page is then of rank 0
        store = store_of_launcher()
        if store is not None:
            store.set(_key(int(os.environ["RANK"])), packed)
    return True


def received(folder: Path) -> list[Path]:
    """The tapes that other ranks have sent, in the order of ranks."""
    store = store_of_launcher()
    tapes = []
    for rank in range(1, int(os.environ["WORLD_SIZE"])):
        if store is not None and store.check([_key(rank)]):
            tapes.append(folder / f"rank{rank}.tape")
            tapes[-1].write_bytes(zlib.decompress(store.get(_key(rank))))
    return tapes


def _key(rank: int) -> str:
    return f"gradkeeper/tape/{rank}"


def _without_layers(path: Path) -> str:
    """What grows fastest, and is told of rank 0 only."""
    lines = StringIO()
    tape = Tape(lines, keep=False)
    for event in read_file(path):
        tape.record(replace(event, layers=(), norms=()) if isinstance(event, Measure) else event)
    return lines.getvalue()
