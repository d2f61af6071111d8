"""Who else trains this model, and what the ranks must agree on. One process: single_process.py.

setup        which of it applies
distributed  several ranks: what a window does in all of them at once
rendezvous   what ranks tell each other, and what follows from it
ddp          DistributedDataParallel: which backward exchanges gradients
fsdp         FSDP2: the same
uneven_data  loaders of different lengths, read in step
"""

from typing import TYPE_CHECKING, TypeAlias

from gradkeeper.engine.ranks.setup import Sync, ranks_of
from gradkeeper.engine.ranks.uneven_data import EvenStream
from gradkeeper.engine.single_process import SingleProcess

if TYPE_CHECKING:
    from gradkeeper.engine.ranks.distributed import Distributed

    Ranks: TypeAlias = SingleProcess | Distributed

__all__ = ["EvenStream", "SingleProcess", "Sync", "ranks_of"]
