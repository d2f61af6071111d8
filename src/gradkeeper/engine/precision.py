"""fp32, bf16, fp16: what a window's block runs in, and what its losses are multiplied by.

One object per owner. Full precision does nothing and is the one to read first.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypedDict, Unpack

import torch
from torch import Tensor
from torch.optim import Optimizer

from gradkeeper.engine.errors import ScaleCollapseError, SetupError
from gradkeeper.engine.loss_weights import LossFactor

MOST_OVERFLOWS = 20
NOTHING = nullcontext()


class Options(TypedDict):
    """Of Tensor.backward."""

    retain_graph: bool | None
    inputs: list[Tensor] | None


class Precision(Protocol):
    name: str
    scaler: str | None
    """Its scaler's name on the tape."""
    autocast: str | None
    """Its dtype on the tape."""
    overflows: int
    """Skipped in a row, because the scaled gradients overflowed."""

    def block(self, device: str, *, cache: bool = True) -> AbstractContextManager[object]:
        """What the window's block runs in. Without `cache`, weights may change meanwhile."""

    def backward(
        self, loss: Tensor, factor: LossFactor, device: str, **options: Unpack[Options]
    ) -> None:
        """Runs one backward, of the loss times the factor; autocast is meant for forward only."""

    def unscale(self, optimizer: Optimizer) -> None: ...

    def settle(self, *, finite: bool) -> None:
        """Ends the window: the scale may change now."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...

    @property
    def signature(self) -> str:
        """What must be equal on resume."""


class Full:
    name: str = "fp32"
    scaler: str | None = None
    autocast: str | None = None
    overflows: int = 0

    def block(self, device: str, *, cache: bool = True) -> AbstractContextManager[object]:
        return NOTHING

    def backward(
        self, loss: Tensor, factor: LossFactor, device: str, **options: Unpack[Options]
    ) -> None:
        loss.backward(_seed(loss, factor), **options)

    def unscale(self, optimizer: Optimizer) -> None:
        return

    def settle(self, *, finite: bool) -> None:
        return

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        return

    @property
    def signature(self) -> str:
        return self.name


class Brain(Full):
    """bfloat16 has float32's range: autocast is all it takes."""

    name = "bf16"
    autocast: str | None = "bfloat16"
    dtype = torch.bfloat16

    def block(self, device: str, *, cache: bool = True) -> AbstractContextManager[object]:
        # Closures run without the cache: it gave LBFGS stale weights (torch 2.13, 7.07 for 2.5e-5).
        return torch.autocast(device, self.dtype, cache_enabled=cache)

    def backward(
        self, loss: Tensor, factor: LossFactor, device: str, **options: Unpack[Options]
    ) -> None:
        # The narrow copies of the weights would stay until the block ends; a loop that autocasts
        # its forward only has let them go by now.
        torch.clear_autocast_cache()
        with torch.autocast(device, enabled=False):
            super().backward(loss, factor, device, **options)


class Half(Brain):
    """float16 needs a loss scale: one for each owner, changed between windows only."""

    name = "fp16"
    scaler: str | None = "scaler"
    autocast: str | None = "float16"
    dtype = torch.float16

    def __init__(self, device: str) -> None:
        self.grad_scaler = torch.amp.GradScaler(device)
        self._device = device
        self.overflows = 0
        self._unscaled = False

    def block(self, device: str, *, cache: bool = True) -> AbstractContextManager[object]:
        self._catch_up()
        return super().block(device, cache=cache)

    def _catch_up(self) -> None:
        """A window that ended in an exception may have left the scaler waiting for its update.

        Before the next window's losses are scaled: all of them by one factor.
        """
        if self._unscaled:
            self.grad_scaler.update()
            self._unscaled = False

    def backward(
        self, loss: Tensor, factor: LossFactor, device: str, **options: Unpack[Options]
    ) -> None:
        super().backward(self.grad_scaler.scale(loss), factor, device, **options)

    def unscale(self, optimizer: Optimizer) -> None:
        self._unscaled = True
        self.grad_scaler.unscale_(optimizer)

    def settle(self, *, finite: bool) -> None:
        # The step itself is the engine's: scaler.step would wait for the device once more, and
        # with a fused optimizer it does not tell whether it stepped.
        self.grad_scaler.update()
        self._unscaled = False
        self.overflows = 0 if finite else self.overflows + 1
        if self.overflows >= MOST_OVERFLOWS:
            raise ScaleCollapseError(
                f"{self.overflows} windows in a row overflowed in float16, at any loss scale: "
                "the loss itself is NaN or inf, or the model needs bf16 or fp32"
            )

    def state(self) -> dict[str, Any]:
        self._catch_up()
        return {"scaler": self.grad_scaler.state_dict(), "overflows": self.overflows}

    def restore(self, state: dict[str, Any]) -> None:
        self.grad_scaler.load_state_dict(state["scaler"])
        # It makes its scale when it first scales a loss; a resumed window may have none to come.
        self.grad_scaler.scale(torch.zeros((), device=self._device))
        self.overflows = state["overflows"]
        self._unscaled = False


def _seed(loss: Tensor, factor: LossFactor) -> Tensor | None:
    """The gradient to start from: cheaper than a multiplied loss, and nothing is kept for it."""
    if isinstance(factor, Tensor):
        return factor.to(loss).expand_as(loss)
    return None if factor == 1.0 else torch.full_like(loss, factor)


def precision_named(name: str, device: str) -> Precision:
    match name:
        case "fp32":
            return Full()
        case "bf16":
            return Brain()
        case "fp16":
            return Half(device)
    raise SetupError(f"precision is 'fp32', 'bf16' or 'fp16', and this is {name!r}")
