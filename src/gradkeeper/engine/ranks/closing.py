"""A window's end on several ranks: one roll call, and what follows from it."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradkeeper.engine.errors import RankError, WeightError
from gradkeeper.engine.gradients import Norm, gradients, reconsidered, total_norm
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.ranks.even import EvenStream
from gradkeeper.engine.ranks.replicas import Replicas
from gradkeeper.engine.ranks.roll import Roll
from gradkeeper.engine.ranks.shards import Shards
from gradkeeper.engine.ranks.totals import counts_of, put_totals, whole_norm
from gradkeeper.engine.ranks.verdict import check_same_window, digest, failure, too_late
from gradkeeper.engine.ranks.words import Place, State, Word
from gradkeeper.engine.refusal import NO_GRADIENT, RefusedError, refuse_empty
from gradkeeper.engine.scaling import unscale
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.engine.owner import Owner
    from gradkeeper.engine.pending import Pending


class Closing:
    def __init__(self, roll: Roll, sync: Replicas | Shards, journal: Journal) -> None:
        self._roll = roll
        self._sync = sync
        self._journal = journal

    def measured(
        self, owner: "Owner", pending: "Pending", stream: EvenStream | None, handed: int
    ) -> Norm:
        # A scaled gradient is measured after unscale_, which all ranks must reach alike.
        held = gradients(owner.parameters)
        early = bool(held) and not owner.precision.scaler
        tensor = total_norm(held) if early else None
        try:
            facts, weights = counts_of(pending, tensor)
        except WeightError:
            self.call(State.FAILED_LATE, stream, handed)
            raise
        state = State.FINE if pending.torn is None else State.TORN
        unsynced = float(self._sync.unsynced)
        words = self.call(state, stream, handed, unsynced=unsynced, **facts)
        self._raise_if_failed(words)
        put_totals(pending, words, self._roll.unit, weights.last)
        if not (pending.counted and pending.credits):
            refuse_empty(pending, held=bool(held))
        exchange = any(word.unsynced for word in words)
        if exchange:
            self._sync.exchange(owner.parameters)
            self._journal.write(ev.Reduce, accounts=owner.accounts)
        if tensor is None or exchange:
            return self._measured_again(owner)
        return self._norm(tensor, words)

    def call(
        self, state: State, stream: EvenStream | None, handed: int, **facts: float
    ) -> list[Word]:
        """Until all ranks are here; who is still reading or computing hears that others wait."""
        left = 0 if stream is None else stream.remaining
        words: list[Word] = []
        while not words or any(word.place != Place.CLOSE for word in words):
            words = self._roll.call(
                Place.CLOSE, state=state, handed=handed, remaining=left, **facts
            )
            check_same_window(words)
        if stream is not None:
            stream.hear(words)
        self._journal.write(ev.Digest, ranks=digest(words))
        return words

    def _raise_if_failed(self, words: list[Word]) -> None:
        reason = failure(words, self._roll.news)
        if reason is None:
            return
        if too_late(words):
            raise RankError(f"{reason}: nothing was spent, the weights are as before")
        raise RefusedError(reason)

    def _measured_again(self, owner: "Owner") -> Norm:
        unscale(owner, self._journal)
        held = gradients(owner.parameters)
        if not held:
            raise RefusedError(NO_GRADIENT)
        tensor = total_norm(held)
        if not self._sync.copies:
            return Norm(tensor, tensor.item())
        return self._norm(tensor, self._roll.call(Place.WIDE, norm=tensor.item()))

    def _norm(self, tensor: Tensor, words: list[Word]) -> Norm:
        """Replicas hold the same gradients, shards parts of them."""
        if not self._sync.copies:
            return Norm(tensor, words[self._roll.rank].norm)
        length = whole_norm(words, self._sync.copies)
        return Norm(torch.full_like(tensor, length), length)

    def reconsidered(self, norm: Norm, held: list[Tensor]) -> Norm:
        again = reconsidered(norm, held)
        if not self._sync.copies:
            return again
        words = self._roll.call(Place.WIDE, norm=again.length)
        return self._norm(again.tensor, words)
