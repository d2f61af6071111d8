"""State that was saved or loaded: which accounts it holds, and whether it came from a disk."""

import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from gradkeeper.model import events as ev
from gradkeeper.watcher.gradients import Mark, grads_of

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Recorder

DEPTH = 5
MOST_REMEMBERED = 4096


class SavedState:
    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self._loaded: dict[int, tuple[weakref.ref[torch.Tensor], bool]] = {}
        """Tensors that were read, and whether from a disk (or from a buffer in memory)."""

    def saved(self, thing: object) -> None:
        recorder = self._recorder
        if isinstance(thing, torch.nn.Module):
            thing = dict(thing.named_parameters())
        found = list(_tensors(thing, DEPTH))
        places = {one.data_ptr() for one, _ in found if one.layout is torch.strided}
        accounts = [one for one in recorder.cohorts if _lies_in(one.marks, places)]
        if not accounts:
            return
        site = recorder.arrive()
        recorder.manual.notice(accounts, site)
        grads = {
            grad.data_ptr()
            for one in accounts
            for grad in grads_of(one.marks)
            if not grad.is_sparse
        }
        named = any("grad" in path.lower() for _, path in found)
        names = tuple(one.name for one in accounts if one.name in recorder.cohorts.all)
        owners = recorder.optimizers.all_names() if _has_optimizer(thing, DEPTH) else ()
        recorder.post(ev.Save, site, names, owners, named or bool(grads & places), True)

    def loaded(self, thing: object, *, disk: bool) -> None:
        for tensor, _ in _tensors(thing, DEPTH):
            if len(self._loaded) >= MOST_REMEMBERED:
                self._loaded.clear()
            self._loaded[id(tensor)] = (weakref.ref(tensor), disk)

    def restored(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        recorder = self._recorder
        recorder.optimizers.settle()
        touched = list(recorder.cohorts.touched(module.parameters()))
        if touched:
            site = recorder.arrive()
            disk = any(self._is_from_disk(one) for one in state.values())
            recorder.post(ev.Restore, site, tuple(one.name for one in touched), False, disk)
        for cohort in touched:
            for mark in cohort.marks:
                mark.note_weight()

    def holds_grads_of(self, marks: list[Mark]) -> bool:
        """Whether these gradients were loaded: the very tensors, or equal ones."""
        if not self._loaded:
            return False
        grads = grads_of(marks)
        if any(self._found(grad) for grad in grads):
            return True
        small = min(grads, key=torch.Tensor.numel, default=None)
        return small is not None and self.holds(small)

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether it, or one equal to it, was loaded. Reads values: the cold path only."""
        if self._found(tensor):
            return True
        # Zeros are equal to many things that are no gradient.
        if not self._loaded or tensor.is_sparse or not tensor.any():
            return False
        alive = (reference() for reference, _ in self._loaded.values())
        return any(one is not None and _equal(one, tensor) for one in alive)

    def _is_from_disk(self, tensor: object) -> bool:
        found = self._found(tensor)
        return found is not None and found[1]

    def _found(self, tensor: object) -> tuple[weakref.ref[torch.Tensor], bool] | None:
        known = self._loaded.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None


def _tensors(thing: object, depth: int, path: str = "") -> Iterator[tuple[torch.Tensor, str]]:
    """The tensors in nested containers, each with the keys that lead to it."""
    if isinstance(thing, torch.Tensor):
        yield thing, path
    elif depth and isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _tensors(value, depth - 1, f"{path}/{key}")
    elif depth and isinstance(thing, (list, tuple)):
        for value in thing:
            yield from _tensors(value, depth - 1, path)


def _equal(loaded: torch.Tensor, tensor: torch.Tensor) -> bool:
    """A copy may lie on another device than what was loaded."""
    if loaded.shape != tensor.shape or loaded.layout != tensor.layout:
        return False
    return torch.equal(loaded.to(tensor.device, tensor.dtype), tensor)


def _has_optimizer(thing: object, depth: int) -> bool:
    if not depth or not isinstance(thing, Mapping):
        return False
    if "param_groups" in thing and "state" in thing:
        return True
    return any(_has_optimizer(value, depth - 1) for value in thing.values())


def _lies_in(marks: list[Mark], places: set[int]) -> bool:
    alive = (mark.parameter() for mark in marks)
    return any(one is not None and one.data_ptr() in places for one in alive)
