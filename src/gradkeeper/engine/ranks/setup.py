"""Which of it applies: alone, replicas of DDP, or shards of FSDP2."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed as dist
from torch import nn

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.single_process import SingleProcess
from gradkeeper.torch_private import divides_by

if TYPE_CHECKING:
    from gradkeeper.engine.ranks.distributed import Distributed

Sync = Literal["last", "every"]


def ranks_of(
    owners: Iterable[Owner], sync: Sync | None, journal: Journal
) -> "SingleProcess | Distributed":
    if sync not in (None, "last", "every"):
        raise SetupError(f"sync is 'last' or 'every', not {sync!r}")
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return SingleProcess(journal)
    return _together(list(owners), sync, journal)


def _together(owners: list[Owner], sync: Sync | None, journal: Journal) -> "Distributed":
    # Imported here: they bring FSDP with them, which one process need not wait for.
    from gradkeeper.engine.ranks.distributed import Distributed
    from gradkeeper.engine.ranks.rendezvous import FailureNotes, RollCall

    models = [owner.model for owner in owners]
    if any(_is_sharded(model) for model in models):
        exchanger = _shards(owners, every=sync != "last")
    else:
        exchanger = _replicas(owners, sync)
    return Distributed(RollCall(FailureNotes(), journal), exchanger, models, journal)


def _is_sharded(model: nn.Module) -> bool:
    from torch.distributed.fsdp import FSDPModule

    return any(isinstance(module, FSDPModule) for module in model.modules())


def _shards(owners: list[Owner], *, every: bool) -> Any:
    from gradkeeper.engine.ranks.fsdp import FSDPExchange, roots_of

    if len(owners) > 1:
        raise SetupError(
            "several owners cannot be sharded by FSDP2: a backward into some parameters only "
            "leaves their gradients empty there. Wrap the models in DistributedDataParallel"
        )
    owner = owners[0]
    parameters = parameters_of(owner.optimizer)
    whole = [p for p in parameters if not hasattr(p, "device_mesh")]
    if whole:
        names = ", ".join(owner.names_of(whole)[:3])
        raise SetupError(
            f"{names} and so on are not sharded, so nobody exchanges their gradients: call "
            "fully_shard(model) on the whole model, and build the optimizer after it"
        )
    meshes = {p.device_mesh.size() for p in parameters}  # type: ignore[attr-defined]
    _check_world(meshes)
    if divides_by(roots_of(owner.model)) != {None}:
        raise SetupError(
            "set_gradient_divide_factor was called: gradients must be averaged over the ranks, "
            "because the engine weighs them by the items of all ranks itself"
        )
    return FSDPExchange(owner.model, parameters, every=every)


def _replicas(owners: list[Owner], sync: Sync | None) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    from gradkeeper.engine.ranks.ddp import DDPExchange

    wrappers = [
        module
        for owner in owners
        for module in owner.model.modules()
        if isinstance(module, DistributedDataParallel)
    ]
    covered = {id(p) for wrapper in wrappers for p in wrapper.parameters()}
    for owner in owners:
        bare = [p for p in parameters_of(owner.optimizer) if id(p) not in covered]
        if bare:
            names = ", ".join(owner.names_of(bare)[:3])
            raise SetupError(
                f"here are {dist.get_world_size()} ranks, and nobody exchanges the gradients of "
                f"{names}: wrap the model in DistributedDataParallel or call fully_shard(model)"
            )
    _check_world({wrapper.process_group.size() for wrapper in wrappers})
    static = any(wrapper.static_graph for wrapper in wrappers)
    if static and sync == "last":
        raise SetupError(
            "DistributedDataParallel(static_graph=True) must exchange its very first backward, so "
            'sync="last" is not possible: use sync="every" or leave static_graph out'
        )
    return DDPExchange(wrappers, every=static or sync == "every")


def _check_world(sizes: set[int]) -> None:
    ranks = dist.get_world_size()
    if sizes != {ranks}:
        raise SetupError(
            f"the model is shared by {min(sizes)} of {ranks} ranks: the engine sums weights over "
            "all ranks, so all must train the same model"
        )
