"""The engine writes down what it does: events on a tape, at the user's lines. Warnings too."""

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gradkeeper.engine.errors import EngineWarning
from gradkeeper.model import Event, Site, Tape
from gradkeeper.source_line import NOWHERE, user_site

# A loop that runs for days must not grow, nor wait for its books: what happened is kept as it is
# (0.3 us), the latest of it only, and made into events when somebody reads the tape.


MOST_EVENTS = 20_000

JournalLine = tuple[type[Event], Site, dict[str, Any]]


class Journal:
    """Takes notes. With a tape of the user's own, each one is recorded there at once."""

    def __init__(self, tape: Tape | None = None, *, most: int = MOST_EVENTS) -> None:
        self.rank: int | None = None
        """This process's, where there are several."""
        self.site = NOWHERE
        """Where the user's code called the engine last."""
        self._opening: tuple[JournalLine, ...] = ()
        self._notes: deque[JournalLine] = deque(maxlen=most)
        self._tape = tape
        self.patient = tape is None
        """Whether events are made later, when nobody minds that a device is waited for."""
        self._take: Callable[[JournalLine], None] = (
            self._notes.append if tape is None else self._record
        )

    def here(self) -> Site:
        """What is written from now on happens at the user's present line."""
        self.site = user_site(3)
        return self.site

    def write(self, kind: type[Event], **facts: Any) -> None:
        """A fact may be a function that tells it: it is called when the event is made."""
        self._take((kind, self.site, facts))

    def opened(self) -> None:
        """The books are open: what was noted so far is never let go."""
        self._opening = tuple(self._notes)
        self._notes.clear()

    @property
    def tape(self) -> Tape:
        if self._tape is not None:
            return self._tape
        tape = Tape()
        for note in (*self._opening, *self._notes):
            tape.record(self._event(note))
        return tape

    def _record(self, note: JournalLine) -> None:
        assert self._tape is not None
        self._tape.record(self._event(note))

    def _event(self, note: JournalLine) -> Event:
        kind, site, facts = note
        known = {name: fact() if callable(fact) else fact for name, fact in facts.items()}
        return kind(site=site, rank=self.rank, **known)


# Warnings at the user's line, each once per line under Python's default filter.


_told: dict[Any, int] = {}


def warn_of_versions(site: Site, saved: Mapping[str, str]) -> None:
    """Bits are promised for the same versions only."""
    version = saved.get("torch", "")
    if version and version != torch.__version__:
        warn_at(
            site,
            f"the checkpoint was saved with torch {version}, and this is {torch.__version__}: "
            "the run goes on, but not bit for bit",
        )


def warn_at(site: Site, message: str) -> None:
    warnings.warn_explicit(message, EngineWarning, site.file, site.line, registry=_told)
