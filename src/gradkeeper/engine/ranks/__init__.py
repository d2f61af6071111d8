"""Who else trains this model, and what the ranks must agree on.

alone      one process: nothing            together  several: all of it
words      what a rank says                roll      how the others hear it
replicas   DDP: who exchanges when         shards    FSDP2: the same
even       uneven data, read in step       again     a batch handed out again leaves no trace
exchange   gradients averaged at close     verdict   what follows from a rank's failure
news       a note for those who wait       setup     which of it applies
groups     of micro-batches, by batches()  forwards  FSDP2: backwards that others wait for
peers      those who write a checkpoint together
"""

from typing import TYPE_CHECKING, TypeAlias

from gradkeeper.engine.ranks.alone import Alone
from gradkeeper.engine.ranks.even import EvenStream
from gradkeeper.engine.ranks.setup import Sync, ranks_of

if TYPE_CHECKING:
    from gradkeeper.engine.ranks.together import Together

    Ranks: TypeAlias = Alone | Together

__all__ = ["Alone", "EvenStream", "Sync", "ranks_of"]
