"""The window that was open at a save: what was credited in it so far, ready to be credited on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradkeeper.checkpoint import UnkeepableError
from gradkeeper.engine.loss_weights import DeviceTally, LossWeights, Pending, Tally
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.resume.shards import placed
from gradkeeper.engine.resume.stateful import Stateful
from gradkeeper.engine.shared import Shared
from gradkeeper.tree import StateTree, cloned

TALLY = ("first", "total", "last")


@dataclass(frozen=True)
class OpenWindow:
    size: int
    read: int
    opening: int
    """Backward calls before its first micro-batch: the code that made them will run again."""
    pending: Pending
    gradients: list[Any]
    """By the order of the optimizer's parameters."""
    ranks: StateTree
    """What the ranks had exchanged of it."""

    @property
    def state(self) -> StateTree:
        pending = self.pending
        return {
            "size": self.size,
            "read": self.read,
            "opening": self.opening,
            "weights": _tally_state(pending.tally),
            "counted": pending.counted,
            "credits": pending.credits,
            "loss": pending.loss,
            "torn": pending.torn,
            "gradients": self.gradients,
            "ranks": self.ranks,
        }

    def restore_gradients(self, owner: Owner) -> None:
        for parameter, kept in zip(owner.parameters, self.gradients, strict=True):
            if kept is not None:
                gradient = _gradient(placed(kept, parameter))
                _put(parameter, gradient.to(parameter.device))


class PendingWindow(Stateful):
    """The one that is open now; after a resume, the one to be handed out again."""

    def __init__(self, shared: Shared, owners: Mapping[str, Owner]) -> None:
        self._shared = shared
        self._owners = owners
        self.again: OpenWindow | None = None

    def state(self) -> StateTree | None:
        window = self._shared.open
        return None if window is None else window.kept().state

    def restore(self, state: StateTree | None) -> None:
        device = next(iter(self._owners.values())).home
        self.again = None if state is None else restored_window(cloned(state), device)


def restored_window(state: StateTree, device: torch.device) -> OpenWindow:
    """Takes over the state's tensors: those of a state that somebody keeps are cloned first."""
    loss = state["loss"]
    pending = Pending(
        tally=_tally_of(state["weights"], device),
        counted=state["counted"],
        credits=state["credits"],
        loss=None if loss is None else loss.to(device),
        torn=state["torn"],
    )
    return OpenWindow(
        state["size"],
        state["read"],
        state["opening"],
        pending,
        state["gradients"],
        state["ranks"],
    )


def kept_gradients(owner: Owner) -> list[Any]:
    """None stays None: optimizers skip it, and step on zeros."""
    names = {id(parameter): name for name, parameter in owner.model.named_parameters()}
    return [
        _kept(parameter.grad, names.get(id(parameter), "?"))
        for parameter in parameters_of(owner.optimizer)
    ]


def _kept(gradient: Tensor | None, name: str) -> Any:
    if gradient is None or gradient.layout is torch.strided:
        return gradient
    if gradient.layout is not torch.sparse_coo:
        raise UnkeepableError(f"the gradient of {name} has layout {gradient.layout}: not kept yet")
    return {
        "indices": gradient._indices(),
        "values": gradient._values(),
        "shape": list(gradient.shape),
        "coalesced": gradient.is_coalesced(),
    }


def _gradient(kept: Any) -> Tensor:
    if isinstance(kept, Tensor):
        return kept
    return torch.sparse_coo_tensor(
        kept["indices"],
        kept["values"],
        kept["shape"],
        is_coalesced=kept["coalesced"],
        check_invariants=False,  # said, because torch warns where it is not
    )


def _put(parameter: Tensor, gradient: Tensor) -> None:
    # Since torch 2.10 a parameter says which dtype its gradient has; a gradient's own is kept.
    allowed = getattr(parameter, "grad_dtype", None)
    if allowed is not None and allowed != gradient.dtype:
        parameter.grad_dtype = gradient.dtype
    parameter.grad = gradient


def _tally_state(tally: LossWeights) -> StateTree:
    names = TALLY if isinstance(tally, Tally) else (*TALLY, "least")
    return {name: getattr(tally, name) for name in names}


def _tally_of(state: StateTree, device: torch.device) -> LossWeights:
    if "least" not in state:
        return Tally(**state)
    return DeviceTally(**{name: tensor.to(device) for name, tensor in state.items()})
