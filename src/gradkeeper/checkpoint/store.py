"""A folder of checkpoints, numbered as they were saved: save-000001, save-000002, ...

The number is of the save, not of the training step: after going on from an older checkpoint the
next save is the newest again, and never meets a name that is taken.
"""

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypedDict

from gradkeeper.checkpoint import checkpoint
from gradkeeper.checkpoint.checkpoint import (
    Assemble,
    Checkpoint,
    Snapshot,
    first_part,
    snapshot_of,
)
from gradkeeper.checkpoint.codec import encode_plain
from gradkeeper.checkpoint.errors import (
    AllDamagedError,
    CheckpointWarning,
    DamagedError,
    ForeignError,
    MissingError,
    NewerFormatError,
    PeerError,
    ReadError,
    UnreadableError,
    WriteError,
)
from gradkeeper.checkpoint.manifest import Manifest
from gradkeeper.checkpoint.peers import Alone, Peers, first_of
from gradkeeper.checkpoint.storage import LATEST, MANIFEST, storage_at

NUMBERED = re.compile(r"save-(\d{6,})")
KEEP = 3
"""How many of the newest stay, where nobody says."""


class Retention(TypedDict, total=False):
    """Which checkpoints stay: what `Store` takes of it, for those who pass it on."""

    keep: int
    keep_every: int | None


class Store:
    """Saves and loads in one folder, which has one writer at a time.

    Or one group of them, the `peers`: all of these call save and load alike, each saves its part,
    and all go on from the same checkpoint. They must see the same folder.

    Keeps the newest `keep`, at least two, and for good each whose number `keep_every` divides.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = KEEP,
        keep_every: int | None = None,
        peers: Peers | None = None,
    ) -> None:
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise ValueError(f"checkpoints need a folder or a URL, not {folder!r}")
        if not isinstance(keep, int) or keep < 2:
            raise ValueError(
                f"keep={keep!r}: at least 2, so that one is left if the newest is damaged"
            )
        if keep_every is not None and (not isinstance(keep_every, int) or keep_every < 1):
            raise ValueError(f"keep_every={keep_every!r}: every how many saves? At least 1")
        self.folder = os.fspath(folder)
        self._storage = storage_at(folder)
        self._keep = keep
        self._keep_every = keep_every
        self.peers: Peers = peers or Alone()
        self._bad: set[int] = set()
        self._one_at_a_time = threading.Lock()

    def save(self, state: Any, *, facts: Mapping[str, Any] | None = None) -> str:
        """Durable on return, under the name that is returned."""
        return self.write(snapshot_of(state), facts or {})

    def write(self, snapshot: Snapshot, facts: Mapping[str, Any]) -> str:
        with self._one_at_a_time:
            return self._write(snapshot, encode_plain(dict(facts), root="facts"))

    def load(self, assemble: Assemble = first_part) -> Checkpoint | None:
        """The newest good one, with a warning about each newer one; None if there is none yet.

        AllDamagedError if there are some and none is good.
        """
        wrong: list[ReadError] = []
        unfinished: list[ReadError] = []
        for number in self._agreed_candidates():
            found = self._attempt(number, assemble)
            if isinstance(found, ReadError):
                self._bad.add(number)
                (unfinished if self._is_unfinished(number) else wrong).append(found)
                continue
            self._warn_of([*unfinished, *wrong], f"going on from {found.name} instead")
            return found
        if wrong:
            reasons = "".join(f"\n  {error}" for error in wrong)
            raise AllDamagedError(f"{self.folder} holds no checkpoint that is good:{reasons}")
        self._warn_of(unfinished, "its save was never finished, and there is no older one")
        return None

    def _attempt(self, number: int, assemble: Assemble) -> Checkpoint | ReadError:
        """What all peers could read; else what is wrong with it, for any of them."""
        found: Checkpoint | ReadError
        refused: Exception | None = None
        try:
            found = checkpoint.read(self._storage, _name(number), assemble=assemble)
        except (DamagedError, ForeignError, NewerFormatError, MissingError) as error:
            found = error
        except Exception as error:
            refused = error
        bad = None if refused or not isinstance(found, ReadError) else str(found)
        told = self.peers.gather([bad, None if refused is None else str(refused)])
        if refused is not None:
            raise refused
        for rank, (_, reason) in enumerate(told):
            if reason is not None:
                raise PeerError(f"rank {rank} cannot go on from {_name(number)}: {reason}")
        if isinstance(found, Checkpoint):
            theirs = next((text for text, _ in told if text is not None), None)
            return found if theirs is None else DamagedError(theirs)
        return found

    def names(self) -> list[str]:
        """Oldest first; whether they are good is not asked."""
        return [_name(number) for number in sorted(self._numbers())]

    def look(self, name: str) -> Manifest:
        """What a checkpoint says about itself, in `facts` too, without reading its tensors."""
        return checkpoint.look(self._storage, name)

    def read(self, name: str) -> Checkpoint:
        return checkpoint.read(self._storage, name)

    def verify(self, name: str) -> Manifest:
        return checkpoint.verify(self._storage, name)

    def remove(self, name: str) -> None:
        """For whoever knows better than `keep`: the checkpoints of another run, say."""
        self._storage.remove(name)

    def _write(self, snapshot: Snapshot, tree: Any) -> str:
        left: list[str] = []
        finished = 0

        def begin() -> str:
            nonlocal finished
            left.extend(self._storage.sweep())
            finished = self._last_finished()
            return _name(max(self._numbers(), default=0) + 1)

        try:
            name = checkpoint.write(self._storage, self.peers, begin, snapshot, tree)
        except (OSError, ForeignError, PeerError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise WriteError(
                f"{self.folder}: the checkpoint could not be written: {reason}; "
                "those that were there before still are"
            ) from error
        if left:
            _warn(f"{self.folder}: what killed saves left cannot be removed: {', '.join(left)}")
        if self.peers.rank == 0:
            self._tidy(name, finished)
        return name

    def _agreed_candidates(self) -> list[int]:
        return first_of(self.peers, self._candidates)

    def _candidates(self) -> list[int]:
        """Newest first."""
        try:
            names = self._storage.names()
        except OSError as error:
            raise UnreadableError(f"{self.folder} cannot be read: {error.strerror}") from error
        if MANIFEST in names:
            # Else a run that was pointed one level too deep would start from nothing, in silence.
            raise ReadError(f"{self.folder} is itself a checkpoint: give the folder that holds it")
        _, wrong = self._latest()
        if wrong:
            _warn(f"{self.folder}: `{LATEST}` {wrong}; the newest good checkpoint is looked for")
        return sorted(_numbers(names), reverse=True)

    def _numbers(self) -> list[int]:
        return _numbers(self._storage.names())

    def _last_finished(self) -> int:
        """The save that `latest` names; 0 where there is none yet. Where it is damaged, nothing is
        taken for unfinished: nobody can say so."""
        number, wrong = self._latest()
        return max(self._numbers(), default=0) if wrong else number

    def _latest(self) -> tuple[int, str]:
        """The save that `latest` names, and what is wrong with it."""
        try:
            with self._storage.open(LATEST) as stream:
                text = stream.read(100).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return 0, ""
        except OSError as error:
            return 0, f"cannot be read: {error.strerror or error}"
        numbers = _numbers([text])
        if not numbers:
            return 0, f"is damaged, and names no checkpoint but {text[:40]!r}"
        if numbers[0] not in self._numbers():
            return 0, f"names {text}, which is not there"
        return numbers[0], ""

    def _is_unfinished(self, number: int) -> bool:
        """Whether a kill can explain it: where nothing is renamed, a save appears bit by bit."""
        return not self._storage.atomic and number > self._last_finished()

    def _tidy(self, name: str, finished: int) -> None:
        """After the commit: what fails here does not undo the save, so it is a warning."""
        try:
            self._storage.point(name)
            self._prune(_number(name), finished)
        except OSError as error:
            _warn(f"{self.folder}: {name} is saved, but tidying up failed: {error}")

    def _prune(self, newest: int, finished: int) -> None:
        numbers = self._numbers()
        for number in outdated(
            numbers, keep=self._keep, every=self._keep_every, is_good=self._is_good
        ):
            self._storage.remove(_name(number))
        if not self._storage.atomic:
            for number in numbers:
                if finished < number < newest and not self._is_good(number):
                    self._storage.remove(_name(number))

    def _warn_of(self, errors: Iterable[ReadError], outcome: str) -> None:
        for error in errors if self.peers.rank == 0 else ():
            _warn(f"{error}; {outcome}")

    def _is_good(self, number: int) -> bool:
        """As far as can be told without reading its tensors."""
        if number in self._bad:
            return False
        try:
            self.look(_name(number))
        except ReadError:
            return False
        return True


def read_checkpoint(url: str | os.PathLike[str]) -> Checkpoint:
    """One checkpoint by its own path, which need not be the one it was saved under."""
    folder, name = parted(url)
    return checkpoint.read(storage_at(folder), name, moved=True)


def parted(url: str | os.PathLike[str]) -> tuple[str, str]:
    """A checkpoint's path as folder and name."""
    text = os.fspath(url)
    if "://" not in text and "::" not in text:
        return os.path.split(os.path.abspath(text))
    folder, _, name = text.rstrip("/").rpartition("/")
    return (folder + "/" if folder.endswith(":/") else folder), name


def _name(number: int) -> str:
    return f"save-{number:06}"


def _number(name: str) -> int:
    return int(name.removeprefix("save-"))


def _numbers(names: Iterable[str]) -> list[int]:
    return [_number(name) for name in names if NUMBERED.fullmatch(name)]


def _warn(message: str) -> None:
    warnings.warn(message, CheckpointWarning, stacklevel=4)


def outdated(
    numbers: Iterable[int],
    *,
    keep: int,
    every: int | None,
    is_good: Callable[[int], bool],
) -> Iterator[int]:
    """All but the newest `keep` good ones, and but each number that `every` divides.

    A bad one neither counts nor goes: it must not push a good one out, and what is not understood
    (damaged, or of a newer format) is for a person to remove.
    """
    kept = 0
    for number in sorted(numbers, reverse=True):
        is_nth = every is not None and number % every == 0
        if kept >= keep and is_nth:
            continue
        if not is_good(number):
            continue
        if kept >= keep:
            yield number
        kept += 1
