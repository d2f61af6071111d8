"""State that was saved or loaded: which accounts it holds, and whether it came from a disk."""

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.gradients import Cohort, Mark, grads_of
from gradkeeper.watcher.loaded_tensors import DEPTH, MOST_REMEMBERED, LoadedTensors, tensors_in
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
        self._early: dict[int, tuple[weakref.ref[torch.Tensor], str, Site]] = {}
        """Parameters that were loaded before they had an account: from which file, and where."""
        optimizers.adopted.append(self._adopted)

    def saved(self, thing: object, path: str = "") -> None:
        if isinstance(thing, torch.nn.Module):
            thing = dict(thing.named_parameters())
        found = list(tensors_in(thing))
        places = {tensor.data_ptr() for tensor, _ in found if tensor.layout is torch.strided}
        accounts = [cohort for cohort in self._cohorts if _lies_in(cohort.marks, places)]
        if not accounts:
            return
        site = self._arrivals.arrive()
        self._manual.notice(accounts, site)
        grads = {
            grad.data_ptr()
            for account in accounts
            for grad in grads_of(account.marks)
            if not grad.is_sparse
        }
        named = any("grad" in path.lower() for _, path in found)
        names = tuple(account.name for account in accounts if account.name in self._cohorts.all)
        owners = self._optimizers.all_names() if _has_optimizer(thing, DEPTH) else ()
        path = path if all(_is_plain(known) for _, known in self._optimizers.named()) else ""
        gradients = named or bool(grads & places)
        self._accounts.post(ev.Save, site, names, owners, gradients, True, path)

    def restored(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        self._optimizers.settle()
        touched = list(self._cohorts.touched(module.parameters()))
        path = next((self.loaded.path_of(value) for value in state.values()), "")
        if path and not touched and len(self._early) < MOST_REMEMBERED:
            site = self._arrivals.sites.here()
            for parameter in module.parameters():
                self._early[id(parameter)] = (weakref.ref(parameter), path, site)
        if touched:
            site = self._arrivals.arrive()
            disk = any(self.loaded.is_from_disk(value) for value in state.values())
            names = tuple(cohort.name for cohort in touched)
            self._accounts.post(ev.Restore, site, names, False, disk, path)
        for cohort in touched:
            cohort.note_weights()

    def _adopted(self, cohorts: list[Cohort]) -> None:
        """Some of what an optimizer owns now may have been loaded before there was one."""
        for cohort in cohorts if self._early else ():
            held = (mark.parameter() for mark in cohort.marks)
            alive = [parameter for parameter in held if parameter is not None]
            known = [self._early.pop(id(parameter), None) for parameter in alive]
            found = [early for early in known if early is not None and early[0]() is not None]
            if found and len(found) == len(alive):
                _, path, site = found[0]
                self._accounts.post(ev.Restore, site, (cohort.name,), False, True, path)

    def remembers(self, optimizer: torch.optim.Optimizer) -> None:
        """Its own state was loaded."""
        name = self._optimizers.adopt(optimizer)
        if name is not None:
            site = self._arrivals.arrive()
            self._accounts.post(ev.Restore, site, (), False, True, "", (name,))


def _is_plain(optimizer: torch.optim.Optimizer) -> bool:
    """It loads its state by torch's own method, which is seen."""
    return type(optimizer).load_state_dict is torch.optim.Optimizer.load_state_dict


def _has_optimizer(thing: object, depth: int) -> bool:
    if not depth or not isinstance(thing, Mapping):
        return False
    if "param_groups" in thing and "state" in thing:
        return True
    return any(_has_optimizer(value, depth - 1) for value in thing.values())


def _lies_in(marks: list[Mark], places: set[int]) -> bool:
    alive = (mark.parameter() for mark in marks)
    return any(tensor is not None and tensor.data_ptr() in places for tensor in alive)
