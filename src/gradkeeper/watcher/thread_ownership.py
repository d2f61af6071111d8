"""Which thread a parameter belongs to.

Reading `.grad` while another thread runs backward or zero_grad on the same parameter crashes the
interpreter (torch 2.13: in 2 of 3 tries). So a parameter is looked at by one thread only; where
two train the same one (Hogwild), neither is watched any more.
"""

import threading
import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gradkeeper.watcher.recorder import Recorder


class ThreadOwnership:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, tuple[weakref.ref[torch.Tensor], Recorder]] = {}

    def claim(self, parameters: list[torch.Tensor], recorder: "Recorder") -> bool:
        """Takes these for a recorder; False if another thread that still runs has one of them."""
        with self._lock:
            rivals = {other for one in parameters if (other := self._rival(one, recorder))}
            for one in parameters:
                self._held[id(one)] = (weakref.ref(one), recorder)
        for rival in rivals:
            rival.mute()
        return not rivals

    def _rival(self, parameter: torch.Tensor, recorder: "Recorder") -> "Recorder | None":
        held = self._held.get(id(parameter))
        if held is None or held[0]() is not parameter or held[1] is recorder:
            return None
        return held[1] if held[1].thread.is_alive() else None
