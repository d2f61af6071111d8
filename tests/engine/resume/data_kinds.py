"""Data as people have it: each kind of pipeline in one small program that is killed and resumed.

What is said of each is the table of docs/guide/data.md. Those of third parties are imported where
they are made: see the `data` extra.
"""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    get_worker_info,
)

from gradkeeper.engine import Engine

ITEMS = 22
SHARDS = 4


@dataclass(frozen=True)
class Kind:
    what: str
    """As in the table."""
    how: str
    """How its place is found; or, if it is refused, what to write instead."""
    build: Callable[[Path], Any]
    """`loader = build(folder)`, the data lies in the folder."""
    ranks: str = ""
    """How each of several ranks gets its share."""
    refused: str = ""
    """The begin of the reason."""
    needs: str = ""
    """The package, where it is not torch."""


OWN = "its own state"
SAMPLER = "the sampler is asked again, no data is read"
READ = "reads up to the place, and compares"
KINDS: dict[str, Kind] = {}


def kind(
    what: str, how: str, *, ranks: str = "", refused: str = "", needs: str = ""
) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    def named(build: Callable[[Path], Any]) -> Callable[[Path], Any]:
        KINDS[build.__name__] = Kind(what, how, build, ranks, refused, needs)
        return build

    return named


# How ranks share items. One process is rank 0 of 1.
SAMPLED = "`DistributedSampler`"
SPLIT = "`split_dataset_by_node`"
BY_HAND = "the dataset leaves out what is others'"
BY_NODE = "`nodesplitter=split_by_node`"
ITSELF = "by itself"


def rank_of_ranks() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def shuffled_for_rank(data: Any) -> dict[str, Any]:
    """Options of a loader."""
    rank, ranks = rank_of_ranks()
    if ranks == 1:
        return {"shuffle": True}
    return {"sampler": DistributedSampler(data, ranks, rank, seed=2)}


def numbers_of_worker() -> range:
    rank, ranks = rank_of_ranks()
    worker = get_worker_info()
    first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
    return range(rank + first * ranks, ITEMS, step * ranks)


def noisy(value: Any) -> Tensor:
    """As augmentation does."""
    return torch.as_tensor(value, dtype=torch.float32) + random.random() + torch.rand(())


def quiet(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float32)


# torch and torchdata


class Items(Dataset[Tensor]):
    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> Tensor:
        return noisy(index)


class Buffered(IterableDataset[Tensor]):
    """A shuffle buffer, without a state."""

    def __iter__(self) -> Iterator[Tensor]:
        buffer: list[int] = []
        for number in numbers_of_worker():
            buffer.append(number)
            if len(buffer) > 3:
                yield noisy(buffer.pop(random.randrange(len(buffer))))
        yield from map(noisy, buffer)


class Stated(IterableDataset[Tensor]):
    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[Tensor]:
        numbers = numbers_of_worker()
        while self.at < len(numbers):
            self.at += 1
            yield noisy(numbers[self.at - 1])
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


@kind("`DataLoader`, map-style dataset", SAMPLER, ranks=SAMPLED)
def map_style(folder: Path) -> Any:
    data = Items()
    return DataLoader(data, batch_size=2, num_workers=2, **shuffled_for_rank(data))


@kind("`DataLoader`, `IterableDataset`", READ, ranks=BY_HAND)
def stream(folder: Path) -> Any:
    return DataLoader(Buffered(), batch_size=2, num_workers=2)


@kind("`StatefulDataLoader`, map-style dataset", SAMPLER, ranks=SAMPLED, needs="torchdata")
def stateful_map(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = Items()
    return StatefulDataLoader(data, batch_size=2, num_workers=2, **shuffled_for_rank(data))


@kind(
    "`StatefulDataLoader`, dataset with `state_dict()`",
    f"{OWN}, with what workers draw beside it",
    ranks=BY_HAND,
    needs="torchdata",
)
def stateful_stream(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(Stated(), batch_size=2, num_workers=2)


@kind(
    "`StatefulDataLoader`, `IterableDataset` without a state",
    READ,
    ranks=BY_HAND,
    needs="torchdata",
)
def stateful_read(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(Buffered(), batch_size=2, num_workers=2)


class Drawer:
    def __iter__(self) -> Iterator[Tensor]:
        return (noisy(number) for number in numbers_of_worker())


@kind("any object whose `__iter__` starts anew", READ, ranks=BY_HAND)
def iterable(folder: Path) -> Any:
    return Drawer()


@kind(
    "a generator, or any other iterator",
    "pass what it is made from",
    refused="a generator can be read once only",
)
def generator(folder: Path) -> Any:
    return (noisy(number) for number in range(ITEMS))


# Hugging Face datasets


def hugging_face() -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({"x": [float(number) for number in range(ITEMS)]})


def with_noise(example: dict[str, Any]) -> dict[str, Any]:
    return {"x": float(noisy(example["x"]))}


def is_some(example: dict[str, Any]) -> bool:
    return bool(example["x"] > 2)


def each_with_noise(examples: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"x": [noisy(value) for value in examples["x"]]}


def for_rank(data: Any) -> Any:
    from datasets.distributed import split_dataset_by_node

    rank, ranks = rank_of_ranks()
    return data if ranks == 1 else split_dataset_by_node(data, rank, ranks)


def streamed() -> Any:
    return for_rank(hugging_face().to_iterable_dataset(num_shards=SHARDS))


@kind("`Dataset` in a `DataLoader`", SAMPLER, ranks=f"{SAMPLED}, or {SPLIT}", needs="datasets")
def hf_map(folder: Path) -> Any:
    data = for_rank(hugging_face()).with_transform(each_with_noise)
    return DataLoader(data, batch_size=2, shuffle=True, num_workers=2)


@kind("streaming, in a `DataLoader`, shuffled or not", READ, ranks=SPLIT, needs="datasets")
def hf_stream(folder: Path) -> Any:
    data = streamed().shuffle(seed=3, buffer_size=6).map(with_noise)
    return DataLoader(data, batch_size=2, num_workers=2)


@kind(
    "streaming, in a `StatefulDataLoader`: `map`, `filter`, `take`, `skip`",
    f"{OWN}, with what workers draw beside it",
    ranks=SPLIT,
    needs="datasets",
)
def hf_stateful(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = streamed().skip(1).map(with_noise).filter(is_some).take(18)
    return StatefulDataLoader(data, batch_size=2, num_workers=2)


@kind(
    "streaming, in a `StatefulDataLoader`: `shuffle`, batched `map`, and the rest",
    f"{READ} (the state loses the shuffle's buffer)",
    ranks=SPLIT,
    needs="datasets",
)
def hf_shuffled(folder: Path) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = streamed().shuffle(seed=3, buffer_size=6).map(with_noise)
    return StatefulDataLoader(data, batch_size=2, num_workers=2)


@kind(
    "streaming, `shuffle()` without a seed",
    "`shuffle(seed=0)`",
    refused="a stream of Hugging Face's is shuffled without a seed",
    needs="datasets",
)
def hf_unseeded(folder: Path) -> Any:
    return DataLoader(streamed().shuffle(buffer_size=6), batch_size=2)


# webdataset


def shards(folder: Path) -> list[str]:
    import webdataset

    folder.mkdir(parents=True, exist_ok=True)
    names = [str(folder / f"{number}.tar") for number in range(SHARDS)]
    for number, name in enumerate(names):
        if not Path(name).exists():
            part = f"{name}.part"
            with webdataset.TarWriter(part) as writer:
                for item in range(number, ITEMS, SHARDS):
                    writer.write({"__key__": f"{item:03}", "x.txt": str(item)})
            Path(part).rename(name)
    return names


def number_of(sample: dict[str, Any]) -> Tensor:
    return noisy(float(sample["x.txt"]))


def web(folder: Path, **options: Any) -> Any:
    import webdataset

    own = {"shardshuffle": False, "nodesplitter": webdataset.split_by_node}
    return webdataset.WebDataset(shards(folder), **{**own, **options})


@kind(
    "`WebDataset` in a `DataLoader` or `WebLoader`: `detshuffle`, `shuffle(n, rng=...)`",
    READ,
    ranks=BY_NODE,
    needs="webdataset",
)
def web_seeded(folder: Path) -> Any:
    import webdataset

    data = web(folder, shardshuffle=SHARDS, detshuffle=True, seed=3)
    data = data.compose(webdataset.detshuffle(6, seed=5)).shuffle(4, rng=random.Random(1))
    return webdataset.WebLoader(data.map(number_of), batch_size=2, num_workers=2)


@kind(
    "`ResampledShards(deterministic=True)`, `with_epoch(n)`",
    READ,
    ranks="each draws its own shards",
    needs="webdataset",
)
def web_resampled(folder: Path) -> Any:
    import webdataset

    data = webdataset.DataPipeline(
        webdataset.ResampledShards(shards(folder), deterministic=True),
        webdataset.tarfile_to_samples(),
        webdataset.map(number_of),
    )
    return DataLoader(data.with_epoch(9), batch_size=2, num_workers=2)


@kind(
    "`.shuffle(n)` without `rng` or `seed`",
    "`.shuffle(n, rng=random.Random(0))`",
    refused="webdataset's shuffle() without a seed takes one from the time",
    needs="webdataset",
)
def web_unseeded(folder: Path) -> Any:
    return DataLoader(web(folder).shuffle(6).map(number_of), batch_size=2)


@kind(
    "`WebDataset(resampled=True)`",
    "`ResampledShards(deterministic=True)`",
    refused="webdataset draws shards by the time",
    needs="webdataset",
)
def web_by_time(folder: Path) -> Any:
    data = web(folder, resampled=True).map(number_of).with_epoch(9)
    return DataLoader(data, batch_size=2)


# MosaicML streaming


def mosaic() -> Any:
    # It imports torchvision for its examples of vision, which nothing here touches.
    if "torchvision" not in sys.modules:
        import transformers.models.auto.tokenization_auto  # noqa: F401

        for name in ("", ".datasets", ".transforms", ".transforms.functional"):
            sys.modules[f"torchvision{name}"] = ModuleType(f"torchvision{name}")
        vars(sys.modules["torchvision.datasets"])["VisionDataset"] = object
        vars(sys.modules["torchvision.transforms.functional"])["to_tensor"] = None
    import streaming

    return streaming


def mosaic_data(folder: Path, transform: Callable[[Any], Tensor]) -> Any:
    streaming = mosaic()
    if not (folder / "index.json").exists():
        with streaming.MDSWriter(out=str(folder), columns={"x": "float64"}, size_limit=200) as made:
            for number in range(ITEMS):
                made.write({"x": float(number)})

    class Transformed(streaming.StreamingDataset):  # type: ignore[misc, name-defined]
        def __getitem__(self, index: Any) -> Tensor:
            return transform(super().__getitem__(index)["x"])

    # What a killed process leaves behind stands in the next one's way.
    streaming.base.util.clean_stale_shared_memory()
    return Transformed(local=str(folder), batch_size=2, shuffle=True, shuffle_seed=5)


@kind(
    "`StreamingDataLoader`, workers draw nothing",
    f"{OWN}; call `clean_stale_shared_memory()` first",
    ranks=ITSELF,
    needs="mosaicml-streaming",
)
def mosaic_quiet(folder: Path) -> Any:
    return mosaic().StreamingDataLoader(mosaic_data(folder, quiet), batch_size=2, num_workers=2)


@kind("`StreamingDataLoader` without workers", OWN, ranks=ITSELF, needs="mosaicml-streaming")
def mosaic_alone(folder: Path) -> Any:
    return mosaic().StreamingDataLoader(mosaic_data(folder, noisy), batch_size=2)


@kind(
    "`StreamingDataLoader`, workers draw random numbers",
    "draw in the loop, or `num_workers=0`",
    refused="the workers of this StreamingDataLoader draw random numbers",
    needs="mosaicml-streaming",
)
def mosaic_noisy(folder: Path) -> Any:
    return mosaic().StreamingDataLoader(mosaic_data(folder, noisy), batch_size=2, num_workers=2)


@kind(
    "`StreamingDataset` in a plain `DataLoader`",
    "`StreamingDataLoader`",
    refused="a StreamingDataset of MosaicML counts epochs",
    needs="mosaicml-streaming",
)
def mosaic_plain(folder: Path) -> Any:
    return DataLoader(mosaic_data(folder, quiet), batch_size=2)


# litdata


def lit_folder(folder: Path) -> str:
    from litdata.streaming.writer import BinaryWriter

    if not (folder / "index.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        writer = BinaryWriter(str(folder), chunk_size=4)
        for number in range(ITEMS):
            writer[number] = float(number)
        writer.done()
        writer.merge()
    return str(folder)


def lit_data(folder: Path, transform: Callable[[Any], Tensor]) -> Any:
    import litdata

    return litdata.StreamingDataset(lit_folder(folder), shuffle=True, seed=4, transform=transform)


@kind("`StreamingDataLoader`, workers draw nothing", OWN, ranks=ITSELF, needs="litdata")
def lit_quiet(folder: Path) -> Any:
    import litdata

    return litdata.StreamingDataLoader(lit_data(folder, quiet), batch_size=2, num_workers=2)


@kind("`StreamingDataLoader` without workers", OWN, ranks=ITSELF, needs="litdata")
def lit_alone(folder: Path) -> Any:
    import litdata

    return litdata.StreamingDataLoader(lit_data(folder, noisy), batch_size=2)


@kind(
    "`StreamingDataLoader` over a `CombinedStreamingDataset`",
    f"{READ} (with workers, the state leads elsewhere)",
    ranks=ITSELF,
    needs="litdata",
)
def lit_combined(folder: Path) -> Any:
    import litdata

    parts = [lit_data(folder / name, noisy) for name in ("one", "two")]
    data = litdata.CombinedStreamingDataset(
        parts, weights=(0.5, 0.5), iterate_over_all=False, seed=3
    )
    return litdata.StreamingDataLoader(data, batch_size=2, num_workers=2)


@kind("`StreamingDataset` in a plain `DataLoader`", READ, ranks=ITSELF, needs="litdata")
def lit_plain(folder: Path) -> Any:
    return DataLoader(lit_data(folder, noisy), batch_size=2, num_workers=2)


@kind(
    "`StreamingDataLoader`, workers draw random numbers",
    "draw in the loop, or `num_workers=0`",
    refused="the workers of this StreamingDataLoader draw random numbers",
    needs="litdata",
)
def lit_noisy(folder: Path) -> Any:
    import litdata

    return litdata.StreamingDataLoader(lit_data(folder, noisy), batch_size=2, num_workers=2)


# The program, and the table.


def train(name: str, folder: Path, step: Callable[[], None]) -> list[Any]:
    """All that it computed. Data and checkpoints lie side by side."""
    loader = KINDS[name].build(folder / "data")
    model: nn.Module = nn.Sequential(nn.Linear(1, 4), nn.Dropout(0.3), nn.Linear(4, 1))
    if dist.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = Adam(model.parameters(), lr=0.01)
    engine = Engine(model, optimizer, checkpoint=folder / "saves", progress=False)
    losses = engine.track("losses", [])
    items = engine.track("items", [])
    engine.resume()
    for window in engine.windows(loader, size=3, epochs=2):
        with window:
            for batch in window:
                x = batch["x"] if isinstance(batch, dict) else batch
                x = x.float().reshape(-1, 1)
                window.backward(mse_loss(model(x), x), weight=len(x))
                items.append(len(x))
                engine.save()
                step()
        losses.append(window.loss)
    return [model.state_dict(), optimizer.state_dict(), losses, sum(items)]


PACKAGES = {
    "": "torch",
    "torchdata": "torchdata",
    "datasets": "Hugging Face `datasets`",
    "webdataset": "`webdataset`",
    "mosaicml-streaming": "MosaicML `streaming`",
    "litdata": "`litdata`",
}


def table() -> str:
    rows = ["| of | what | resumes | how | several ranks |", "|---|---|---|---|---|"]
    for needs, package in PACKAGES.items():
        for one in KINDS.values():
            if one.needs == needs:
                verdict = "refused" if one.refused else "exactly"
                how = f"instead: {one.how}" if one.refused else one.how
                ranks = "refused" if one.refused else one.ranks
                rows.append(f"| {package} | {one.what} | {verdict} | {how} | {ranks} |")
    return "\n".join(rows) + "\n"
