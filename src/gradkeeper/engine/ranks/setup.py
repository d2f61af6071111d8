"""Which of it applies: one process, DDP, FSDP2, or tensor parallelism."""

from collections.abc import Iterable

import torch.distributed as dist

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.journal import Journal
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.ranks.base import Ranks, Sync
from gradkeeper.engine.single_process import SingleProcess


def ranks_of(owners: Iterable[Owner], sync: Sync | None, journal: Journal) -> Ranks:
    if sync not in (None, "last", "every", "shards"):
        raise SetupError(f"sync is 'last', 'every' or 'shards', not {sync!r}")
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return SingleProcess(journal)
    return _several(list(owners), sync, journal)


def _several(owners: list[Owner], sync: Sync | None, journal: Journal) -> Ranks:
    # Imported here: they bring FSDP with them, which one process need not wait for.
    from gradkeeper.engine.ranks import ddp, fsdp, tensor_parallel
    from gradkeeper.engine.ranks.distributed import Distributed
    from gradkeeper.engine.ranks.rendezvous import FailureNotes, RollCall

    # The first that knows the model. DDP comes last, and refuses what nobody exchanges.
    offers = (strategy.exchange_of(owners, sync) for strategy in (fsdp, tensor_parallel, ddp))
    if sync == "shards" and not fsdp.has_copies(owners):
        raise SetupError(
            'sync="shards" is for FSDP2 on a mesh of two dimensions, where groups of ranks shard '
            'and each group is a copy: use "last" or "every"'
        )
    exchange = next(offer for offer in offers if offer is not None)
    models = [owner.model for owner in owners]
    return Distributed(RollCall(FailureNotes(), journal), exchange, models, journal)
