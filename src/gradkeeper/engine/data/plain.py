"""Bytes as tensors, the form in which a checkpoint keeps them apart from its readable part."""

from typing import Any

import torch


def kept(value: Any) -> Any:
    match value:
        case bytes():
            return torch.frombuffer(bytearray(value), dtype=torch.uint8)
        case dict():
            return {name: kept(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(kept(one) for one in value)
    return value


def given(value: Any) -> Any:
    """What was kept, as it was."""
    match value:
        case torch.Tensor():
            return value.cpu().numpy().tobytes()
        case dict():
            return {name: given(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(given(one) for one in value)
    return value
