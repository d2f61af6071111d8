"""The books. Post events, get entries: the accounts concerned, before and after.

The one place in the model that changes. It judges nothing: what is wrong, the rules say. What each
kind of event does stands in posting/; what a step spends, in spending.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gradkeeper.model import events as ev
from gradkeeper.model.account import Account
from gradkeeper.model.books import Books
from gradkeeper.model.entry import Entry
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.posting import checkpoints, data, gradients, ownership, stepping

E = TypeVar("E", bound=ev.Event)


class Ledger:
    def __init__(self) -> None:
        self._books = Books()

    def post(self, event: E) -> Entry[E]:
        """Enters one event and says what it changed."""
        self._books.number += 1
        entry: Entry[E] = HANDLERS[type(event)](self._books, event)
        return entry

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
    ev.Exhaust: on_fact,
    ev.Digest: on_fact,
    ev.Measure: on_fact,
    ev.Again: data.on_again,
    ev.Close: ownership.on_close,
}
