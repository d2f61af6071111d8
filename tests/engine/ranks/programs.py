"""A run on several ranks as a user would write it, which saves and resumes.

torchrun … -m tests.engine.ranks.programs KIND FOLDER OPTIONS(JSON)
"""

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from gradkeeper.engine import Engine
from tests.engine.ranks.problems import sharing, weights_of, wrapped

Options = dict[str, Any]


class Items(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int, *, noise: float) -> None:
        generator = torch.Generator().manual_seed(5)
        self._x = torch.randn(count, 6, generator=generator)
        self._y = torch.randint(0, 3, (count,), generator=generator)
        self._noise = noise

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        return self._x[place] + self._noise * torch.rand(6), self._y[place]


class Flow(IterableDataset[tuple[Tensor, Tensor]]):
    """The same items one after another; nobody knows how many there are."""

    def __init__(self, items: Items, places: list[int], *, signal_at: int | None = None) -> None:
        self._items = items
        self._places = places
        self._signal_at = signal_at
        """The item at which this process is told to end."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number, place in enumerate(self._places):
            if number == self._signal_at:
                os.kill(os.getpid(), signal.SIGTERM)
            yield self._items[place]


def network(*, dropout: float, coupled: bool) -> nn.Sequential:
    torch.manual_seed(3)
    norm = nn.BatchNorm1d(8) if coupled else nn.LayerNorm(8)
    return nn.Sequential(nn.Linear(6, 8), norm, nn.Dropout(dropout), nn.Linear(8, 3))


def loader_of(options: Options) -> DataLoader[Any]:
    count = options.get("items", 44)
    data = Items(count, noise=options.get("noise", 0.1))
    if options.get("sampler", "distributed") == "distributed":
        share = options.get("sharing", 1)
        sampler: Any = DistributedSampler(
            data, dist.get_world_size() // share, dist.get_rank() // share, seed=4
        )
        return DataLoader(data, batch_size=2, sampler=sampler)
    # Each rank has its own share, and they are uneven.
    rank = dist.get_rank()
    share = list(range(rank, count, dist.get_world_size()))[: count // 2 - 6 * rank]
    if options.get("sampler") == "flow":
        return DataLoader(Flow(data, share, signal_at=options.get("signal_at")), batch_size=2)
    generator = torch.Generator().manual_seed(rank)
    return DataLoader(
        torch.utils.data.Subset(data, share), batch_size=2, shuffle=True, generator=generator
    )


def train(rank: int, kind: str, folder: str, options: Options) -> dict[str, Any]:
    """Weights, and what else a run leaves behind."""
    net = network(dropout=options.get("dropout", 0.2), coupled=options.get("coupled", False))
    model = wrapped(kind, net)
    options = options | {"sharing": sharing(kind)}
    torch.manual_seed(100 + rank // options["sharing"])
    optimizer = AdamW(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, 3)
    engine = Engine(
        model,
        optimizer,
        scheduler=scheduler,
        clip_norm=1.0,
        sync=options.get("sync"),
        checkpoint=Path(folder),
        save_every=options.get("save_every"),
        keep=options.get("keep", 1000),
        progress=False,
    )
    losses = engine.track("losses", [])
    counted = engine.track("micro-steps", [])
    resumed = engine.resume()
    loader = loader_of(options)
    size = options.get("size", 3)
    for window in engine.windows(loader, size=size, epochs=options.get("epochs", 2)):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))
                counted.append(rank)
                if not options.get("save_every"):
                    engine.save()
                if options.get("ask_on") == rank and len(counted) == 4:
                    engine.save()
                maybe_die(rank, len(counted), folder, options)
                maybe_wait(rank, len(counted), folder, options)
        losses.append(window.loss)
    return {
        "resumed": resumed,
        "weights": weights_of(model),
        "buffers": [one.clone() for one in model.buffers()],
        "losses": losses,
        "rng": torch.get_rng_state(),
        "steps": engine.steps,
    }


def maybe_die(rank: int, micro_step: int, folder: str, options: Options) -> None:
    """Once at each of the micro-steps asked for, on one rank and then on another."""
    if micro_step not in options.get("die_at", ()) or micro_step % dist.get_world_size() != rank:
        return
    mark = Path(folder).with_name(f"died-{micro_step}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), options.get("signal", signal.SIGKILL))


def maybe_wait(rank: int, micro_step: int, folder: str, options: Options) -> None:
    """At the micro-step asked for, until somebody lets it go on."""
    if micro_step == options.get("wait_at"):
        Path(folder).with_name(f"waits-{rank}").touch()
        while not Path(folder).with_name("go").exists():
            time.sleep(0.05)


def digest_of(result: dict[str, Any]) -> str:
    found = hashlib.sha256()
    for one in (*result["weights"], *result["buffers"], result["rng"]):
        found.update(one.contiguous().numpy().tobytes())
    found.update(repr((result["losses"], result["steps"])).encode())
    return found.hexdigest()


def train_to_digest(rank: int, kind: str, folder: str, options: Options) -> tuple[bool, str]:
    result = train(rank, kind, folder, options)
    return result["resumed"], digest_of(result)


def main() -> None:
    kind, folder, text = sys.argv[1:]
    torch.set_num_threads(1)
    options = json.loads(text)
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.get("timeout", 1800)))
    rank = dist.get_rank()
    _, digest = train_to_digest(rank, kind, folder, options)
    Path(folder).with_name(f"digest-{rank}").write_text(digest)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
