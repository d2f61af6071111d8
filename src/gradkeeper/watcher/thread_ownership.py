"""Which thread a parameter belongs to.

Reading `.grad` while another thread runs backward or zero_grad on the same parameter crashes the
interpreter (torch 2.13: in 2 of 3 tries). So a parameter is looked at by one thread only; where
two train the same one (Hogwild), neither is watched any more.
"""

import threading
import weakref
from typing import Protocol

import torch


class Claimant(Protocol):
    """Who looks at the gradients of one thread."""

    @property
    def thread(self) -> threading.Thread: ...

    def mute(self) -> None: ...


class ThreadOwnership:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, tuple[weakref.ref[torch.Tensor], Claimant]] = {}

    def claim(self, parameters: list[torch.Tensor], claimant: Claimant) -> bool:
        """Takes these for somebody; False if another thread that still runs has one of them."""
        with self._lock:
            rivals = {other for one in parameters if (other := self._rival(one, claimant))}
            for one in parameters:
                self._held[id(one)] = (weakref.ref(one), claimant)
        for rival in rivals:
            rival.mute()
        return not rivals

    def _rival(self, parameter: torch.Tensor, claimant: Claimant) -> Claimant | None:
        held = self._held.get(id(parameter))
        if held is None or held[0]() is not parameter or held[1] is claimant:
            return None
        return held[1] if held[1].thread.is_alive() else None
