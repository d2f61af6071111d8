"""Tensor parallelism by parallelize_module, alone: all ranks read the same micro-batches, and each
holds a part of the weights. Together with fully_shard, see fsdp.py."""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.engine.errors import SetupError, WindowError
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.ranks.base import Sync
from gradkeeper.engine.ranks.fsdp import FSDPExchange


class TensorParallelExchange(FSDPExchange):
    """Forwards and backwards are collective here too; what they exchange is torch's own."""

    def __init__(self, model: nn.Module, parameters: list[Tensor]) -> None:
        super().__init__(model, parameters, every=True)
        self.alike = [list(range(dist.get_world_size()))]

    def credited(self) -> bool:
        super().credited()
        for parameter in self._parameters:
            _settle(parameter)
        return True

    def leaves(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters if parameter.requires_grad]

    def at_close(self) -> None:
        raise WindowError("closures cannot be used with tensor parallelism: use DDP")


def _settle(parameter: Any) -> None:
    """A gradient of which each rank has a summand (a norm's, under SequenceParallel) is added up:
    after each backward, so that it does not matter whether the run was saved in between."""
    gradient = parameter.grad
    if gradient is None or not hasattr(gradient, "placements"):
        return
    if any(placement.is_partial() for placement in gradient.placements):
        parameter.grad = gradient.redistribute(placements=parameter.placements)


def exchange_of(owners: list[Owner], sync: Sync | None) -> TensorParallelExchange | None:
    """None where no parameter lies on a mesh. Asked after FSDP2."""
    meshes: list[Any] = [
        getattr(parameter, "device_mesh", None)
        for owner in owners
        for parameter in parameters_of(owner.optimizer)
    ]
    sizes = {mesh.size() for mesh in meshes if mesh is not None}
    if not sizes:
        return None
    if len(owners) > 1:
        raise SetupError(
            "several owners cannot be tensor-parallel: a backward into some parameters only runs "
            "other collectives than the ranks expect. Wrap the models in DistributedDataParallel"
        )
    owner = owners[0]
    if any(isinstance(module, DistributedDataParallel) for module in owner.model.modules()):
        raise SetupError(
            "DistributedDataParallel around a tensor-parallel model is not supported: use "
            'fully_shard(model, mesh=mesh["dp"]) in its place'
        )
    ranks = dist.get_world_size()
    if sizes != {ranks}:
        raise SetupError(
            f"the model is tensor-parallel over {min(sizes)} of {ranks} ranks, and nobody "
            "exchanges gradients between these groups: after parallelize_module on one dimension "
            'of the mesh, call fully_shard(model, mesh=mesh["dp"]) with the other'
        )
    return TensorParallelExchange(owner.model, parameters_of(owner.optimizer))
