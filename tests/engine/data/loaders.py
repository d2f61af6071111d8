"""Datasets, samplers and loaders that draw random numbers in every way that people do.

At the top of a module, so that spawned workers can import them.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data.distributed import DistributedSampler

ITEMS = 11
TOP = numpy.random.default_rng(5)


class Noisy(Dataset[torch.Tensor]):
    """Each item with numbers from the three generators of the process."""

    def __init__(self, reads: Path | None = None, items: int = ITEMS) -> None:
        self.reads = reads
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.reads is not None:
            with self.reads.open("a") as file:
                file.write(f"{index}\n")
        worker = get_worker_info()
        place = -1 if worker is None else worker.id
        return torch.tensor([index, place, *self.drawn()], dtype=torch.float64)

    def drawn(self) -> list[float]:
        return [random.random(), float(numpy.random.rand()), torch.rand(()).item()]


class Jitter:
    """A transform with a generator of its own."""

    def __init__(self) -> None:
        self.rng = random.Random(3)

    def __call__(self) -> float:
        return self.rng.random()


class Owning(Noisy):
    """Draws from generators that it holds, nested, and from one that it makes on first use."""

    def __init__(self, reads: Path | None = None, items: int = ITEMS) -> None:
        super().__init__(reads, items)
        self.generator = torch.Generator().manual_seed(1)
        self.rngs: dict[str, Any] = {
            "numpy": numpy.random.default_rng(2),
            "legacy": numpy.random.RandomState(4),
        }
        self.transforms = [Jitter()]
        self.late: numpy.random.Generator | None = None
        # As in a new process.
        TOP.bit_generator.state = numpy.random.default_rng(5).bit_generator.state

    def drawn(self) -> list[float]:
        if self.late is None:
            self.late = numpy.random.Generator(numpy.random.Philox(6))
        return [
            torch.rand((), generator=self.generator).item(),
            float(self.rngs["numpy"].random()),
            float(self.rngs["legacy"].rand()),
            self.transforms[0](),
            float(self.late.random()),
            float(TOP.random()),
        ]


class Failing(Noisy):
    def __getitem__(self, index: int) -> torch.Tensor:
        item = super().__getitem__(index)
        if index == 4:
            raise ValueError("item 4 is damaged")
        return item


class Lazy(Sampler[int]):
    """Draws each index from the process's generator at the moment it is asked."""

    def __init__(self, items: int) -> None:
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.items):
            yield random.randrange(self.items)


class Eager(Sampler[int]):
    """Shuffles its own list in `__iter__`, the last epoch's order being the next one's start."""

    def __init__(self, items: int) -> None:
        self.order = list(range(items))

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        random.shuffle(self.order)
        return iter(list(self.order))


class Stated(Sampler[int]):
    """Knows its epoch, in a way that only its own state_dict tells."""

    def __init__(self, items: int) -> None:
        self.items = items
        self._box = [{"epoch": 0}]

    def __len__(self) -> int:
        return self.items

    def __iter__(self) -> Iterator[int]:
        self._box[0]["epoch"] += 1
        yield from numpy.random.default_rng(self._box[0]["epoch"]).permutation(self.items).tolist()

    def state_dict(self) -> dict[str, int]:
        return self._box[0]

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._box[0] = dict(state)


class Sharded(DistributedSampler[Any]):
    """What a loop does by hand: another epoch each time."""

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        self.set_epoch(self.epoch + 1)


def mixed(items: list[torch.Tensor]) -> torch.Tensor:
    """A collate function that draws."""
    return torch.stack(items) + torch.rand(())


def prepared(number: int) -> None:
    """A worker_init_fn that changes the dataset it finds, as many do."""
    worker = get_worker_info()
    assert worker is not None
    assert isinstance(worker.dataset, Noisy)
    torch.rand(number + 1)


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def nested(reads: Path | None) -> Dataset[torch.Tensor]:
    return ConcatDataset([Subset(Owning(reads, 20), range(6)), Subset(Owning(reads, 9), [0, 2, 4])])


def with_generator(reads: Path | None, **options: Any) -> DataLoader[Any]:
    """One generator for order, seeds and, in the main process, the dataset."""
    dataset, generator = Owning(reads), seeded()
    dataset.generator = generator
    return DataLoader(dataset, batch_size=3, shuffle=True, generator=generator, **options)


Make = Callable[..., Any]
MAPPED: dict[str, Make] = {
    "sequential": lambda reads, **o: DataLoader(Noisy(reads), batch_size=2, **o),
    "shuffled": lambda reads, **o: DataLoader(Noisy(reads), batch_size=2, shuffle=True, **o),
    "even": lambda reads, **o: DataLoader(Noisy(reads, 8), batch_size=2, shuffle=True, **o),
    "dropping": lambda reads, **o: DataLoader(
        Noisy(reads), batch_size=2, shuffle=True, drop_last=True, **o
    ),
    "unbatched": lambda reads, **o: DataLoader(Noisy(reads, 6), batch_size=None, shuffle=True, **o),
    "generator": with_generator,
    "owning": lambda reads, **o: DataLoader(Owning(reads), batch_size=2, shuffle=True, **o),
    "nested": lambda reads, **o: DataLoader(nested(reads), batch_size=2, shuffle=True, **o),
    "replacing": lambda reads, **o: DataLoader(
        Noisy(reads),
        sampler=RandomSampler(range(ITEMS), replacement=True, num_samples=40, generator=seeded()),
        batch_size=4,
        **o,
    ),
    "twice": lambda reads, **o: DataLoader(
        Noisy(reads), sampler=RandomSampler(range(6), num_samples=15), batch_size=4, **o
    ),
    "subset": lambda reads, **o: DataLoader(
        Noisy(reads), sampler=SubsetRandomSampler(range(7)), batch_size=2, **o
    ),
    "weighted": lambda reads, **o: DataLoader(
        Noisy(reads), sampler=WeightedRandomSampler([1.0, 2.0] * 5, 9), batch_size=2, **o
    ),
    "sharded": lambda reads, **o: DataLoader(
        Noisy(reads), sampler=Sharded(Noisy(), 2, 1), batch_size=2, **o
    ),
    "lazy": lambda reads, **o: DataLoader(Noisy(reads), sampler=Lazy(ITEMS), batch_size=2, **o),
    "eager": lambda reads, **o: DataLoader(Noisy(reads), sampler=Eager(ITEMS), batch_size=2, **o),
    "stated": lambda reads, **o: DataLoader(Noisy(reads), sampler=Stated(ITEMS), batch_size=2, **o),
    "listed": lambda reads, **o: DataLoader(Noisy(reads), sampler=[3, 1, 2], batch_size=2, **o),
    "batches": lambda reads, **o: DataLoader(
        Noisy(reads), batch_sampler=[[3, 1], [2], [5, 6, 7]], **o
    ),
    "mixing": lambda reads, **o: DataLoader(
        Noisy(reads), batch_size=3, shuffle=True, collate_fn=mixed, **o
    ),
}


class Stream(IterableDataset[torch.Tensor]):
    """A shuffle buffer, as streams have: what it holds depends on what was drawn before."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        place = 0 if worker is None else worker.id
        buffer = [place * 100 + number for number in range(4)]
        for number in range(4, 9):
            spot = int(torch.randint(len(buffer), ()).item())
            yield torch.tensor([buffer[spot], random.random()], dtype=torch.float64)
            buffer[spot] = place * 100 + number


class Chunks:
    """An object that starts anew at each `iter`, and has no length."""

    def __init__(self) -> None:
        self.rng = numpy.random.default_rng(9)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(int(self.rng.integers(3, 7))):
            yield torch.tensor([number, float(self.rng.random())]) + torch.rand(())


class Custom(DataLoader[Any]):
    """A loader that iterates in its own way."""

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield batch * 2


READ: dict[str, Make] = {
    "stream": lambda **o: DataLoader(Stream(), batch_size=2, **o),
    "custom": lambda **o: Custom(Noisy(), batch_size=2, shuffle=True, **o),
}
