"""A training loop that cannot lose a gradient.

engine     hands out windows          window    the block in which losses are credited
settling   what its end does          closure   the same for LBFGS
crediting  one backward               weights   how much each loss weighs
pending    what an open one knows     clipping  the last touch before the step
owner      who spends                 stream    the loader, and how far it has been read
precision  fp32, bf16, fp16           errors    what is refused
loop       one call of windows()      data      the place in a loader
resume     saved, and gone on with    preemption  SIGTERM and SIGUSR1
ranks      who else trains this model  leftovers  calls that are the engine's alone
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
