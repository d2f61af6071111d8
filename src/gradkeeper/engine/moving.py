"""Batches moved to a device, whatever they are made of."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor


class Mover(Protocol):
    def __call__(self, batch: Any) -> Any: ...


def stay(batch: Any) -> Any:
    return batch


def mover(device: str | torch.device | None) -> Mover:
    if device is None:
        return stay
    target = torch.device(device)
    return lambda batch: moved(batch, target)


def moved(batch: Any, device: torch.device) -> Any:
    """Tensors, and what lies in mappings, lists and tuples; anything else only if it has `.to`."""
    match batch:
        case Tensor():
            # Out of pinned memory the copy runs beside the computation.
            return batch.to(device, non_blocking=batch.is_pinned())
        case str() | bytes():
            return batch
        case Mapping():
            items = {key: moved(value, device) for key, value in batch.items()}
            return items if type(batch) is dict or not hasattr(batch, "to") else batch.to(device)
        case tuple() if hasattr(batch, "_fields"):
            return type(batch)(*(moved(one, device) for one in batch))
        case list() | tuple():
            return type(batch)(moved(one, device) for one in batch)
    return batch.to(device) if hasattr(batch, "to") else batch
