"""What the engine refuses, and why.

EngineError
├── SetupError            model, optimizer, scheduler or options do not fit together
├── UnknownOwnerError     a window asked for an owner that the engine does not have
├── WindowError           a window is used in a way it cannot be
│   ├── NestedWindowError     opened while another one is open
│   ├── ClosedWindowError     used before its `with` block, after it, or a second time
│   ├── UnusedWindowError     handed out by a loop and never entered, or never read
│   └── LeftoverError         a backward, step or zero_grad in it that is not the window's own
├── LossError             a loss from which no gradient can reach the owner
├── WeightError           a weight that is negative, not finite or not a number
├── LoaderError           a loader that cannot be read again
│   └── PositionError         a place in it that cannot be kept, or not be found again
├── ResumeError           a checkpoint that another model, optimizer, window or loader wrote
├── OtherRunError         a folder that holds another run's checkpoints
├── NonFiniteError        NaN or inf in the gradients, with on_nonfinite="raise"
├── ScaleCollapseError    the loss scale was halved again and again, and nothing helps
└── RankError             another rank failed, left its loop or fell silent

EngineWarning             what goes on, but should be known
"""


class EngineError(RuntimeError):
    pass


class SetupError(EngineError, ValueError):
    pass


class UnknownOwnerError(EngineError, ValueError):
    pass


class WindowError(EngineError):
    pass


class NestedWindowError(WindowError):
    pass


class ClosedWindowError(WindowError):
    pass


class UnusedWindowError(WindowError):
    pass


class LeftoverError(WindowError):
    pass


class LossError(EngineError, ValueError):
    pass


class WeightError(EngineError, ValueError):
    pass


class LoaderError(EngineError):
    pass


class PositionError(LoaderError):
    pass


class ResumeError(EngineError):
    pass


class OtherRunError(EngineError):
    pass


class NonFiniteError(EngineError, ArithmeticError):
    pass


class ScaleCollapseError(EngineError, ArithmeticError):
    pass


class RankError(EngineError):
    pass


class EngineWarning(UserWarning):
    pass
