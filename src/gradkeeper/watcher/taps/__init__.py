"""Where torch is tapped. Each module replaces a few functions and returns what undoes it.

A tap asks for the recorder of the calling thread, tells it what happens, and calls the original. It
decides nothing.
"""

from gradkeeper.watcher.patches import Undo
from gradkeeper.watcher.taps import (
    backward,
    clip,
    data,
    optimizer,
    scaler,
    scheduler,
    state,
    warnings,
)
from gradkeeper.watcher.taps.call import Calls

ALL = (backward, optimizer, scaler, clip, data, scheduler, state, warnings)


def tap(calls: Calls) -> list[Undo]:
    return [undo for module in ALL for undo in module.tap(calls)]
