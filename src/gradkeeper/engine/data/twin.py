"""A loader with all of the user's settings that draws its indices through us.

DataLoader has no public way to hand it another sampler once it is made, nor to make it again from
its own settings: so a shallow copy is changed, in this file only.
"""

import copy
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

from gradkeeper.engine.data.order import Order
from gradkeeper.engine.data.worker import Prepare, Reader, as_it_is


def can_be_copied(loader: Any) -> bool:
    """A map-style loader that iterates as DataLoader does; a subclass may do as it likes."""
    if not isinstance(loader, DataLoader):
        return False
    kind = type(loader)
    if kind.__iter__ is not DataLoader.__iter__:
        return False
    if kind._get_iterator is not DataLoader._get_iterator:
        return False
    return not isinstance(loader.dataset, IterableDataset | MapDataPipe)


def twin_of(loader: DataLoader[Any], order: Order) -> DataLoader[Any]:
    twin = copy.copy(loader)
    settings = vars(twin)
    settings["_iterator"] = None
    if loader.num_workers == 0:
        settings["sampler" if loader.batch_sampler is None else "batch_sampler"] = order
        return twin
    # Without a batch sampler a loader passes indices on as they are, and so our tasks.
    settings["sampler"], settings["batch_sampler"] = order, None
    batched = loader.batch_sampler is not None
    settings["dataset"] = Reader(loader.dataset, loader.collate_fn, batched)
    settings["collate_fn"] = as_it_is
    settings["worker_init_fn"] = Prepare(loader.worker_init_fn)
    return twin


def end_workers(twin: DataLoader[Any]) -> None:
    """Those that stay between epochs: they end with their iterator, which only the twin holds."""
    vars(twin)["_iterator"] = None
