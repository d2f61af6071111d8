"""Rank 0 leaves last if it has findings to exit with: torchrun ends the others as soon as one
process exits with an error, in the middle of whatever they still write."""

import atexit
import os
from contextlib import suppress
from datetime import timedelta

from gradkeeper.watcher.gather import store_of_launcher

PATIENCE = timedelta(seconds=15)
"""How long rank 0 waits for those who may have crashed."""


def tell_when_left() -> None:
    """To be called before the script: what it registers for its own end comes first then."""
    atexit.register(_tell)


def wait_until_left() -> None:
    others = [_key(rank) for rank in range(1, int(os.environ["WORLD_SIZE"]))]
    with suppress(Exception):  # the store has several kinds of timeout
        store = store_of_launcher()
        if store is not None:
            store.wait(others, PATIENCE)


def _tell() -> None:
    with suppress(Exception):  # the launcher has ended: nobody waits
        store = store_of_launcher()
        if store is not None:
            store.set(_key(int(os.environ["RANK"])), "")


def _key(rank: int) -> str:
    return f"gradkeeper/left/{rank}"
