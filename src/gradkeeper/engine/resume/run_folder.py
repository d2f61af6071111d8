"""The folder of one run: saved to, gone on from, and not shared with another run by accident."""

import os
import sys
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from gradkeeper.checkpoint import Checkpoint, ReadError, Store, WriteBehind, WriteError
from gradkeeper.checkpoint.checkpoint import Assemble
from gradkeeper.checkpoint.peers import Peers, first_of
from gradkeeper.checkpoint.store import Retention
from gradkeeper.engine.errors import OtherRunError, SetupError

if TYPE_CHECKING:
    from gradkeeper.engine.ranks import Ranks

LONG = 1.0
"""Seconds of waiting for the disk that a person is told of."""


class Folder:
    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        overwrite: bool,
        peers: Peers | None,
        **retention: Unpack[Retention],
    ) -> None:
        try:
            self.store = Store(url, peers=peers, **retention)
        except ValueError as error:
            raise SetupError(str(error)) from None
        self.run: str = self.store.peers.gather(uuid.uuid4().hex)[0]
        """Who writes here; whoever goes on from a checkpoint takes over its name."""
        self._writer = WriteBehind(self.store)
        self._overwrite = overwrite
        self._claimed = False
        self._waited = 0.0
        """Seconds for which training waited until the save before was written."""
        self._told = False
        """Of that."""

    def load(self, assemble: Assemble) -> Checkpoint | None:
        found = self.store.load(assemble)
        if found is not None and "run" in found.facts:
            self.run = found.facts["run"]
            self._claimed = True
        return found

    def save(self, state: Any, facts: Mapping[str, Any], *, behind: bool) -> WriteError | None:
        """What became of the save before, if it failed and nobody was told: this one is saved."""
        start = time.monotonic()
        self.settle()
        if behind:
            self._waited += time.monotonic() - start
        failure = self._writer.take_failure()
        try:
            self._save(state, {"run": self.run, **facts}, behind=behind)
        except BaseException as error:
            if failure is not None:
                error.add_note(f"and the save before it failed: {failure}")
            raise
        return failure

    def _save(self, state: Any, facts: Mapping[str, Any], *, behind: bool) -> None:
        others = [] if self._claimed else first_of(self.store.peers, self._others)
        if behind and not others:
            self._tell_of_waiting()
            self._writer.save(state, facts=facts)
        else:
            self._writer.save_now(state, facts=facts)
        self._claimed = True
        if self.store.peers.rank == 0:
            for name in others:
                self.store.remove(name)

    def wait(self) -> None:
        """Until the last save is durable; raises if it failed."""
        self._writer.wait()

    def settle(self) -> None:
        """Until nothing is being written; what failed is told at the next call."""
        self._writer.settle()

    def _tell_of_waiting(self) -> None:
        waited = self._waited
        if waited < LONG or self._told or self.store.peers.rank or sys.stderr is None:
            return
        self._told = True
        print(
            f"gradkeeper: steps are faster than {self.store.folder} is written: training has "
            f"waited {waited:.1f} s for saves so far. None is left out; with a larger save_every "
            "it waits less",
            file=sys.stderr,
            flush=True,
        )

    def _others(self) -> list[str]:
        """Checkpoints of other runs, if they may be overwritten."""
        names = [name for name in self.store.names() if self._run_of(name) != self.run]
        if names and not self._overwrite:
            raise OtherRunError(
                f"{self.store.folder} holds {names[-1]} of another run: call engine.resume() to go "
                "on from it, choose another folder, or pass overwrite=True to replace it"
            )
        return names

    def _run_of(self, name: str) -> str | None:
        try:
            run: str | None = self.store.look(name).facts.get("run")
        except ReadError:
            return None
        return run


def folder_of(
    url: str | os.PathLike[str] | None,
    ranks: "Ranks",
    *,
    overwrite: bool,
    **retention: Unpack[Retention],
) -> Folder | None:
    if url is None:
        return None
    return Folder(url, overwrite=overwrite, peers=ranks.peers(), **retention)
