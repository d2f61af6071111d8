"""State that was saved or loaded: which accounts it holds, and whether it came from a disk."""

from collections.abc import Mapping
from typing import Any

import torch

from gradkeeper.model import events as ev
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.gradients import Mark, grads_of
from gradkeeper.watcher.loaded_tensors import DEPTH, LoadedTensors, tensors_in
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.optimizers import Optimizers


class SavedState:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        optimizers: Optimizers,
        manual: ManualChanges,
        loaded: LoadedTensors,
    ) -> None:
        self._arrivals = arrivals
        self._accounts = accounts
        self._cohorts = accounts.cohorts
        self._optimizers = optimizers
        self._manual = manual
        self.loaded = loaded

    def saved(self, thing: object) -> None:
        if isinstance(thing, torch.nn.Module):
            thing = dict(thing.named_parameters())
        found = list(tensors_in(thing))
        places = {one.data_ptr() for one, _ in found if one.layout is torch.strided}
        accounts = [one for one in self._cohorts if _lies_in(one.marks, places)]
        if not accounts:
            return
        site = self._arrivals.arrive()
        self._manual.notice(accounts, site)
        grads = {
            grad.data_ptr()
            for one in accounts
            for grad in grads_of(one.marks)
            if not grad.is_sparse
        }
        named = any("grad" in path.lower() for _, path in found)
        names = tuple(one.name for one in accounts if one.name in self._cohorts.all)
        owners = self._optimizers.all_names() if _has_optimizer(thing, DEPTH) else ()
        self._accounts.post(ev.Save, site, names, owners, named or bool(grads & places), True)

    def restored(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        self._optimizers.settle()
        touched = list(self._cohorts.touched(module.parameters()))
        if touched:
            site = self._arrivals.arrive()
            disk = any(self.loaded.is_from_disk(one) for one in state.values())
            self._accounts.post(ev.Restore, site, tuple(one.name for one in touched), False, disk)
        for cohort in touched:
            for mark in cohort.marks:
                mark.note_weight()


def _has_optimizer(thing: object, depth: int) -> bool:
    if not depth or not isinstance(thing, Mapping):
        return False
    if "param_groups" in thing and "state" in thing:
        return True
    return any(_has_optimizer(value, depth - 1) for value in thing.values())


def _lies_in(marks: list[Mark], places: set[int]) -> bool:
    alive = (mark.parameter() for mark in marks)
    return any(one is not None and one.data_ptr() in places for one in alive)
