"""Tensors that were loaded: gradients that come from a checkpoint are known by them."""

import weakref
from collections.abc import Iterator, Mapping

import torch

from gradkeeper.torch_private import held_here
from gradkeeper.watcher.gradients import Mark, grads_of

DEPTH = 5
MOST_REMEMBERED = 4096


class LoadedTensors:
    def __init__(self) -> None:
        self._loaded: dict[int, tuple[weakref.ref[torch.Tensor], bool, str]] = {}
        """Tensors that were read, whether from a disk (or from a buffer in memory), which file."""

    def add(self, thing: object, *, disk: bool, path: str = "") -> None:
        """All tensors in nested containers."""
        for tensor, _ in tensors_in(thing):
            if len(self._loaded) >= MOST_REMEMBERED:
                self._loaded.clear()
            self._loaded[id(tensor)] = (weakref.ref(tensor), disk, path)

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
        if not self._loaded or tensor.is_sparse or not held_here(tensor).any():
            return False
        alive = (reference() for reference, _, _ in self._loaded.values())
        return any(loaded is not None and _equal(loaded, tensor) for loaded in alive)

    def is_from_disk(self, tensor: object) -> bool:
        found = self._found(tensor)
        return found is not None and found[1]

    def path_of(self, tensor: object) -> str:
        """The file that it came from; empty where that is not known."""
        found = self._found(tensor)
        return found[2] if found is not None else ""

    def _found(self, tensor: object) -> tuple[weakref.ref[torch.Tensor], bool, str] | None:
        known = self._loaded.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None


def tensors_in(
    thing: object, depth: int = DEPTH, path: str = ""
) -> Iterator[tuple[torch.Tensor, str]]:
    """The tensors in nested containers, each with the keys that lead to it."""
    if isinstance(thing, torch.Tensor):
        yield thing, path
    elif depth and isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from tensors_in(value, depth - 1, f"{path}/{key}")
    elif depth and isinstance(thing, (list, tuple)):
        for value in thing:
            yield from tensors_in(value, depth - 1, path)


def _equal(loaded: torch.Tensor, tensor: torch.Tensor) -> bool:
    """A copy may lie on another device than what was loaded."""
    if loaded.shape != tensor.shape or loaded.layout != tensor.layout:
        return False
    here, loaded_here = held_here(tensor), held_here(loaded)
    if here.shape != loaded_here.shape:
        return False
    return torch.equal(loaded_here.to(here.device, here.dtype), here)
