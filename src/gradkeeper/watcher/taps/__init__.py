"""Where torch is tapped. Each module replaces a few functions and returns what undoes it.

A tap asks for the recorder of the calling thread, tells it what happens, and calls the original. It
decides nothing.

call       the recorder of the calling thread; a fault of ours ends the watch, not the training
backward   `backward()`, DistributedDataParallel's forward, and `all_reduce`
optimizer  optimizers built, stepped and zeroed; modules zeroed, or given another part
scaler     GradScaler
clip       clip_grad_norm_ and its kin
data       batches that a DataLoader hands out
scheduler  ticks
state      state saved and loaded
reads      `.grad` read and assigned by the user's own code
warnings   torch's warnings keep naming the user's line
"""

from gradkeeper.watcher.patches import Undo, at_once
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
    with at_once():
        return [undo for module in ALL for undo in module.tap(calls)]
