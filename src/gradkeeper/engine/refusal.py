"""Why a window is not spent."""

from gradkeeper.engine.pending import Pending

NO_BACKWARD = "no backward in this window"
ANOTHER_BACKWARD = "gradients are there, but none from window.backward(loss): they are cleared"
NO_WEIGHT = "the weights of this window add up to 0"
NO_GRADIENT = "no parameter of the optimizer has a gradient"


class RefusedError(Exception):
    """A window that must not be spent."""

    def __init__(self, reason: str, *, nonfinite: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nonfinite = nonfinite


def refuse_empty(pending: Pending, *, held: bool) -> None:
    if pending.torn is not None:
        raise RefusedError(f"a backward failed half-way: {pending.torn}")
    if not pending.counted:
        raise RefusedError(ANOTHER_BACKWARD if held else NO_BACKWARD)
    if not pending.credits:
        raise RefusedError(NO_WEIGHT)
    if not held:
        raise RefusedError(NO_GRADIENT)
