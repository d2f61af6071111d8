"""The transformer of characters.py on several ranks, in the same loop.

    torchrun --nproc-per-node 2 -m examples.characters_ranks          # DistributedDataParallel
    torchrun --nproc-per-node 2 -m examples.characters_ranks --fsdp   # FSDP2

Each rank reads its share of the texts. Shares hold different numbers of characters, and a step is
still that of one big batch. With --max-restarts, set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: torchrun
may hand stale addresses to restarted ranks otherwise.
"""

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from examples.characters import IGNORED, Reader, collate, texts
from gradkeeper import Engine


def wrapped(model: Reader, *, sharded: bool) -> nn.Module:
    if not sharded:
        return DistributedDataParallel(model)
    for layer in model.layers.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def main(*, sharded: bool, epochs: int = 4) -> list[float]:
    torch.manual_seed(0)
    numbers, characters = texts()
    dataset: Any = numbers
    sampler: DistributedSampler[Any] = DistributedSampler(dataset)
    loader: DataLoader[Tensor] = DataLoader(
        dataset, batch_size=4, sampler=sampler, collate_fn=collate
    )
    model = wrapped(Reader(characters), sharded=sharded)
    engine = Engine(model, AdamW(model.parameters(), lr=0.01), clip_norm=1.0)

    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for window in engine.windows(loader, size=4):
            with window:
                for x, y in window:
                    loss = cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORED)
                    window.backward(loss, weight=(y != IGNORED).sum())
            losses.append(window.loss or 0.0)
    if dist.get_rank() == 0:
        print(f"{window.step} steps, loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    return losses


if __name__ == "__main__":
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    main(sharded="--fsdp" in sys.argv)
    dist.destroy_process_group()
