"""torchtitan's own checkpoint manager, as its trainer makes it; of a model alone."""

from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

MODULE = "torchtitan.components.checkpoint"


def manager_of(model: nn.Module, folder: str | Path, **options: Any) -> Any:
    kind = import_module(MODULE).CheckpointManager
    config = kind.Config(enable=True, keep_latest_k=0, **options)
    absent: dict[str, Any] = dict.fromkeys(("dataloader", "optimizers", "lr_schedulers"))
    return kind(
        config, model_parts=[model], states={}, sd_adapter=None, base_folder=str(folder), **absent
    )
