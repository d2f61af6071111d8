"""The books. Post events, get entries: the accounts concerned, before and after.

The one place in the model that changes. It judges nothing: what is wrong, the rules say. What each
kind of event does stands in posting/; what a step spends, in spending.py.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.entry import Entry
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.posting import checkpoints, data, gradients, ownership, stepping
from gradkeeper.model.repeating import count_again, counts_of

E = TypeVar("E", bound=ev.Event)


LONGEST_ROUND = 512
"""Events of a loop's round that can be told to have come again."""


class Ledger:
    def __init__(self) -> None:
        self._books = Books()
        self._recent: deque[ev.Event] = deque(maxlen=LONGEST_ROUND)

    def post(self, event: E) -> Entry[E]:
        """Enters one event and says what it changed."""
        if isinstance(event, ev.Again):
            rounds = self._repeat(event)
            return replace(self._enter(event), rounds=rounds)
        if not isinstance(event, ev.Measure):
            self._recent.append(event)
        return self._enter(event)

    def _enter(self, event: E) -> Entry[E]:
        self._books.number += 1
        entry: Entry[E] = HANDLERS[type(event)](self._books, event)
        return entry

    def _repeat(self, event: ev.Again) -> tuple[tuple[Entry[ev.Event], ...], ...]:
        """Enters the round once more, for an account that nobody closes is not where it was, and
        twice, which tells what a round adds; then as long as gradients pile up, because what a step
        will spend of them is counted one by one. The further times add just what the last one did.
        Returns the entries of the first two rounds. A tape cut short may lack the round."""
        if len(self._recent) < event.length:
            return ()
        again = list(self._recent)[-event.length :]
        rounds = []
        for number in range(1, event.times + 1):
            before, waiting = counts_of(self._books), self._waiting()
            entries = tuple(self._enter(repeated) for repeated in again)
            if number <= 2:
                rounds.append(entries)
            if number >= 2 and self._waiting() <= waiting:
                count_again(self._books, before, event.times - number)
                break
        return tuple(rounds)

    def _waiting(self) -> int:
        return sum(len(account.fresh) for account in self._books.accounts.values())

    @property
    def accounts(self) -> Mapping[str, Account]:
        return self._books.accounts

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        return self._books.optimizers


def on_fact(books: Books, event: E) -> Entry[E]:
    """Events that change no account: the rules read them as they are."""
    return books.entry(event, {}, {})


HANDLERS: dict[type[ev.Event], Callable[[Books, Any], Entry[Any]]] = {
    ev.Open: ownership.on_open,
    ev.Split: ownership.on_split,
    ev.Adopt: ownership.on_adopt,
    ev.Batch: data.on_batch,
    ev.EpochBegin: data.on_epoch_begin,
    ev.EpochEnd: data.on_epoch_end,
    ev.Shuffle: data.on_shuffle,
    ev.Resume: data.on_resume,
    ev.Overrun: data.on_overrun,
    ev.Forward: gradients.on_forward,
    ev.Backward: gradients.on_backward,
    ev.Assign: gradients.on_assign,
    ev.Adjust: gradients.on_adjust,
    ev.Read: gradients.on_read,
    ev.Reduce: gradients.on_reduce,
    ev.Scale: stepping.on_scale,
    ev.Unscale: stepping.on_unscale,
    ev.Update: stepping.on_update,
    ev.Clip: gradients.on_clip,
    ev.Step: stepping.on_step,
    ev.Move: stepping.on_move,
    ev.Zero: gradients.on_zero,
    ev.Save: checkpoints.on_save,
    ev.Restore: checkpoints.on_restore,
    ev.Tick: stepping.on_tick,
    ev.Fault: gradients.on_fault,
    ev.Escape: ownership.on_escape,
    ev.Exhaust: on_fact,
    ev.Keep: on_fact,
    ev.Digest: on_fact,
    ev.Replicas: on_fact,
    ev.Measure: on_fact,
    ev.Again: on_fact,
    ev.Close: ownership.on_close,
}
