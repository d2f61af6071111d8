"""A folder of checkpoints, numbered as they were saved: save-000001, save-000002, ...

The number is of the save, not of the training step: after going on from an older checkpoint the
next save is the newest again, and never meets a name that is taken.
"""

import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from gradkeeper.checkpoint import reading, writing
from gradkeeper.checkpoint.encoding import encode_plain
from gradkeeper.checkpoint.errors import (
    AllDamagedError,
    CheckpointWarning,
    DamagedError,
    ForeignError,
    MissingError,
    NewerFormatError,
    ReadError,
    UnreadableError,
    WriteError,
)
from gradkeeper.checkpoint.image import Image, image_of
from gradkeeper.checkpoint.manifest import NAME as MANIFEST
from gradkeeper.checkpoint.manifest import Manifest
from gradkeeper.checkpoint.place import LATEST, place
from gradkeeper.checkpoint.pruning import outdated
from gradkeeper.checkpoint.reading import Checkpoint

NUMBERED = re.compile(r"save-(\d{6,})")


class Store:
    """Saves and loads in one folder, which has one writer at a time.

    Keeps the newest `keep`, at least two, and for good each whose number `keep_every` divides.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 3,
        keep_every: int | None = None,
    ) -> None:
        if keep < 2:
            raise ValueError(
                f"keep={keep}: at least 2, so that one is left if the newest is damaged"
            )
        if keep_every is not None and keep_every < 1:
            raise ValueError(f"keep_every={keep_every}: every how many saves? At least 1")
        self.folder = os.fspath(folder)
        self._place = place(folder)
        self._keep = keep
        self._keep_every = keep_every
        self._bad: set[int] = set()
        self._one_at_a_time = threading.Lock()

    def save(self, state: Any, *, facts: Mapping[str, Any] | None = None) -> str:
        """Durable on return, under the name that is returned."""
        return self.write(image_of(state), facts or {})

    def write(self, image: Image, facts: Mapping[str, Any]) -> str:
        with self._one_at_a_time:
            return self._write(image, encode_plain(dict(facts), root="facts"))

    def load(self) -> Checkpoint | None:
        """The newest good one, with a warning about each newer one; None if there is none yet.

        AllDamagedError if there are some and none is good.
        """
        wrong: list[ReadError] = []
        unfinished: list[ReadError] = []
        for number in self._candidates():
            try:
                found = reading.read(self._place, _name(number))
            except (DamagedError, ForeignError, NewerFormatError, MissingError) as error:
                self._bad.add(number)
                (unfinished if self._is_unfinished(number) else wrong).append(error)
                continue
            _warn_of([*unfinished, *wrong], f"going on from {found.name} instead")
            return found
        if wrong:
            reasons = "".join(f"\n  {error}" for error in wrong)
            raise AllDamagedError(f"{self.folder} holds no checkpoint that is good:{reasons}")
        _warn_of(unfinished, "its save was never finished, and there is no older one")
        return None

    def names(self) -> list[str]:
        """Oldest first; whether they are good is not asked."""
        return [_name(number) for number in sorted(self._numbers())]

    def look(self, name: str) -> Manifest:
        """What a checkpoint says about itself, in `facts` too, without reading its tensors."""
        return reading.look(self._place, name)

    def read(self, name: str) -> Checkpoint:
        return reading.read(self._place, name)

    def verify(self, name: str) -> Manifest:
        return reading.verify(self._place, name)

    def remove(self, name: str) -> None:
        """For whoever knows better than `keep`: the checkpoints of another run, say."""
        self._place.remove(name)

    def _write(self, image: Image, tree: Any) -> str:
        try:
            left = self._place.sweep()
            finished = self._last_finished()
            name = _name(max(self._numbers(), default=0) + 1)
            writing.write(self._place, name, image, tree)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WriteError(
                f"{self.folder}: the checkpoint could not be written: {reason}; "
                "those that were there before still are"
            ) from error
        if left:
            _warn(f"{self.folder}: what killed saves left cannot be removed: {', '.join(left)}")
        self._tidy(name, finished)
        return name

    def _candidates(self) -> list[int]:
        """Newest first."""
        try:
            names = self._place.names()
        except OSError as error:
            raise UnreadableError(f"{self.folder} cannot be read: {error.strerror}") from error
        if MANIFEST in names:
            # Else a run that was pointed one level too deep would start from nothing, in silence.
            raise ReadError(f"{self.folder} is itself a checkpoint: give the folder that holds it")
        return sorted(_numbers(names), reverse=True)

    def _numbers(self) -> list[int]:
        return _numbers(self._place.names())

    def _last_finished(self) -> int:
        """The save that `latest` names; 0 where there is none."""
        try:
            with self._place.open(LATEST) as stream:
                return max(_numbers([stream.read(100).decode().strip()]), default=0)
        except (OSError, UnicodeDecodeError):
            return 0

    def _is_unfinished(self, number: int) -> bool:
        """Whether a kill can explain it: where nothing is renamed, a save appears bit by bit."""
        return not self._place.atomic and number > self._last_finished()

    def _tidy(self, name: str, finished: int) -> None:
        """After the commit: what fails here does not undo the save, so it is a warning."""
        try:
            self._place.point(name)
            self._prune(_number(name), finished)
        except OSError as error:
            _warn(f"{self.folder}: {name} is saved, but tidying up failed: {error}")

    def _prune(self, newest: int, finished: int) -> None:
        numbers = self._numbers()
        for number in outdated(
            numbers, keep=self._keep, every=self._keep_every, is_good=self._is_good
        ):
            self._place.remove(_name(number))
        if not self._place.atomic:
            for number in numbers:
                if finished < number < newest and not self._is_good(number):
                    self._place.remove(_name(number))

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
    return reading.read(place(folder), name, moved=True)


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


def _warn_of(errors: Iterable[ReadError], outcome: str) -> None:
    for error in errors:
        _warn(f"{error}; {outcome}")


def _warn(message: str) -> None:
    warnings.warn(message, CheckpointWarning, stacklevel=4)
