"""Who else trains this model, and what the ranks must agree on. One process: single_process.py.

base             what the engine asks of ranks, and ranks of an exchange
setup            which of it applies
distributed      several ranks: what a window does in all of them at once
rendezvous       what ranks tell each other (weight, norm, faults), and what follows from it
ddp              DistributedDataParallel: which backward exchanges gradients
fsdp             FSDP2: the same, also under tensor parallelism
tensor_parallel  parallelize_module alone: the same
replicas         whether all hold the same weights
uneven_data      loaders of different lengths, read in step
"""

from gradkeeper.engine.ranks.base import Ranks, Sync
from gradkeeper.engine.ranks.setup import ranks_of

__all__ = ["Ranks", "Sync", "ranks_of"]
