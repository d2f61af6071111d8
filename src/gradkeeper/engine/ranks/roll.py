"""The roll call: each rank says a word, and hears those of all others.

One small all-gather between the hosts, in a process group of its own: so it never meets a
collective of the model's, whatever a rank does wrong, and no device is waited for.
"""

import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gradkeeper.engine.errors import RankError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks.news import News, is_lost
from gradkeeper.engine.ranks.words import Place, Word


def _nothing() -> None:
    return


def group_of_its_own(timeout: timedelta) -> Callable[[], Any]:
    """torch.distributed holds it, and lets it go in destroy_process_group(): its threads must not
    live on into the end of the interpreter."""
    made: Any = weakref.ref(dist.new_group(backend="gloo", timeout=timeout))

    def group() -> Any:
        found = made()
        if found is None:
            raise RuntimeError("destroy_process_group() was called while the engine was in use")
        return found

    return group


class Roll:
    """Of a save or a stop: whoever wants one says so (a signal handler may), and `saving` and
    `stopping` turn true on all ranks in the same call."""

    def __init__(self, news: News, journal: Journal) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.news = news
        self.wants_save = self.wants_stop = False
        self.saving = self.stopping = False
        self.heard: Callable[[], None] = _nothing
        """Called when some rank has asked."""
        self.agreed = 0.0
        """The weight that all ranks' weights are relative to; 0 until agreed on, once per run."""
        self._asked = False
        self._journal = journal
        self._window = 0
        self._broken: str | None = None
        self._group = group_of_its_own(news.timeout)
        # Kept, not made for each call: gloo's thread may let go of a tensor after this one, and at
        # the end of a process it would wait for an interpreter that is gone, and abort.
        self._said = torch.zeros(len(Word._fields), dtype=torch.float64)
        self._heard = torch.zeros(self.size, len(Word._fields), dtype=torch.float64)
        self._of_each = list(self._heard.unbind())

    def open_window(self) -> None:
        self.must_be_whole()
        self._asked = False
        self._window += 1

    def call(self, place: Place, **facts: float) -> list[Word]:
        """The words of all ranks, in their order. A call in which a rank asks for the unit serves
        that only: those who came for something else say their word again."""
        self.must_be_whole()
        line = self._journal.site.line
        while True:
            wants = {"stop": float(self.wants_stop), "save": float(self.wants_save)}
            word = Word(place=place, window=self._window, line=line, **wants, **facts)
            words = self._gather(word)
            self._hear_of_wants(words)
            asked = any(one.place == Place.UNIT for one in words)
            if asked:
                self._hear_of_unit(words)
            if not asked or place == Place.UNIT:
                return words

    def _hear_of_wants(self, words: list[Word]) -> None:
        self.stopping = self.stopping or any(one.stop for one in words)
        self.saving = self.saving or any(one.save for one in words)
        if self.saving or self.stopping:
            self.heard()

    def _gather(self, word: Word) -> list[Word]:
        self._said.copy_(torch.tensor(word, dtype=torch.float64))
        try:
            dist.all_gather(self._of_each, self._said, group=self._group())
        except RuntimeError as error:
            raise self.lost(error) from error
        self.news.take_back(self._window)
        return [Word._make(one) for one in self._heard.tolist()]

    # The unit of weights

    @property
    def unit(self) -> float:
        return self.agreed or 1.0

    def ask_for_unit(self, weight: float) -> None:
        """Once per run; in the next window again where all ranks' first losses weighed nothing."""
        if self.needs_unit:
            self.call(Place.UNIT, weight=weight)

    @property
    def needs_unit(self) -> bool:
        return not (self.agreed or self._asked)

    def _hear_of_unit(self, words: list[Word]) -> None:
        self._asked = True
        weights = (one.weight for one in words if one.place == Place.UNIT)
        self.agreed = next((weight for weight in weights if weight), 0.0)

    # When it fails

    def tell(self, what: str) -> None:
        """For the others to read, if they wait for this rank in vain or ask why it failed."""
        site = self._journal.site
        self.news.tell(f"{what} ({site.file}:{site.line})", self._window)

    def lost(self, error: BaseException) -> RankError:
        """A collective failed: no further one can be trusted to meet its like."""
        self.stop_for(self.news.why(error))
        return RankError(self._broken)

    def stop_for(self, reason: str) -> None:
        self._broken = reason

    def raise_if_lost(self, error: BaseException) -> None:
        if self._broken is None and is_lost(error):
            raise self.lost(error) from error

    @property
    def broken(self) -> bool:
        return self._broken is not None

    def must_be_whole(self) -> None:
        if self._broken is not None:
            raise RankError(f"this engine stopped earlier: {self._broken}")
