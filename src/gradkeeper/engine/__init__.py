"""A training loop that cannot lose a gradient. In the order in which it is best read:

window          the block in which losses are credited, and whose end spends them
backward        one loss: its backward, into its owner's parameters only
loss_weights    how much each loss weighs, and what an open window knows: loss, weight, norm
close           what a window's end does: normalise, unscale, clip, step, tick, zero
gradients       what lies in `.grad`: measured, scaled, clipped, cleared
engine          hands out windows, and knows who owns what
owner           a model, its optimizer, how that spends, and what ticks with it
precision       fp32, bf16, fp16
batches         the loader, how far it has been read, and onto which device
leftovers       calls inside a window that are the engine's alone
journal         what the engine did, on a tape; and warnings
progress        what is told: how much trains, a bar for windows, numbers for `log=`
shared          what all windows of one engine share
single_process  one process: nobody to agree with
preemption      SIGTERM and SIGUSR1
determinism     what stands in the way of bit for bit
errors          what is refused
data            the position in a loader, exactly
ranks           several processes that train one model
resume          saved, and gone on with
"""

from gradkeeper.engine.engine import Engine
from gradkeeper.engine.errors import (
    ClosedWindowError,
    EngineError,
    EngineWarning,
    LeftoverError,
    LoaderError,
    LossError,
    NestedWindowError,
    NonFiniteError,
    OtherRunError,
    RankError,
    ResumeError,
    ScaleCollapseError,
    SetupError,
    UnknownOwnerError,
    UnusedWindowError,
    WeightError,
    WindowError,
)
from gradkeeper.engine.window import Window

__all__ = [
    "ClosedWindowError",
    "Engine",
    "EngineError",
    "EngineWarning",
    "LeftoverError",
    "LoaderError",
    "LossError",
    "NestedWindowError",
    "NonFiniteError",
    "OtherRunError",
    "RankError",
    "ResumeError",
    "ScaleCollapseError",
    "SetupError",
    "UnknownOwnerError",
    "UnusedWindowError",
    "WeightError",
    "Window",
    "WindowError",
]
