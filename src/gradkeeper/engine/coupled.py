"""Layers that couple the rows of a batch: with them, a window is not one big batch."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from gradkeeper.engine.warning import warn_at
from gradkeeper.model import Site


def warn_of_coupled_layers(model: nn.Module, site: Site) -> None:
    coupled = (
        name
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and module.training
    )
    first = next(coupled, None)
    if first is not None:
        warn_at(
            site,
            f"layer {first!r} normalises each micro-batch by itself: a window of several is not "
            "the same as one big batch. GroupNorm or LayerNorm is, and so is BatchNorm in eval()",
        )
