"""The transformer of characters.py on several ranks, in the same loop.

    torchrun --nproc-per-node 2 -m examples.characters_ranks          # DistributedDataParallel
    torchrun --nproc-per-node 2 -m examples.characters_ranks --fsdp   # FSDP2

Each rank reads its share of the texts. Shares hold different numbers of characters, and a step is
still that of one big batch. With --folder runs/a and torchrun's --max-restarts, any rank can be
killed at any time; set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 then, or torchrun may hand stale
addresses to restarted ranks.
"""

import argparse
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


def main(*, sharded: bool, folder: str | None = None, epochs: int = 4) -> list[float]:
    torch.manual_seed(0)
    numbers, characters = texts()
    dataset: Any = numbers
    # The engine counts its epochs, so each one is shuffled anew.
    sampler: DistributedSampler[Any] = DistributedSampler(dataset)
    loader: DataLoader[Tensor] = DataLoader(
        dataset, batch_size=4, sampler=sampler, collate_fn=collate
    )
    model = wrapped(Reader(characters), sharded=sharded)
    optimizer = AdamW(model.parameters(), lr=0.01)
    save_every = None if folder is None else 4
    engine = Engine(model, optimizer, clip_norm=1.0, checkpoint=folder, save_every=save_every)
    losses: list[float] = engine.track("losses", [])
    if folder is not None and engine.resume() and dist.get_rank() == 0:
        print(f"going on after {engine.steps['optimizer']} steps")
    for window in engine.windows(loader, size=4, epochs=epochs):
        with window:
            for x, y in window:
                loss = cross_entropy(model(x), y.flatten(), ignore_index=IGNORED)
                window.backward(loss, weight=(y != IGNORED).sum())
        losses.append(window.loss or 0.0)
    if dist.get_rank() == 0:
        print(f"{engine.steps['optimizer']} steps, loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A character-level transformer on several ranks.")
    parser.add_argument("--fsdp", action="store_true", help="FSDP2 instead of DDP")
    parser.add_argument("--folder", help="saves here every 4 steps, and goes on from here")
    options = parser.parse_args()
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    main(sharded=options.fsdp, folder=options.folder)
    dist.destroy_process_group()
