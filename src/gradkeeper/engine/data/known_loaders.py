"""What is known of other people's loaders: whose own state leads exactly back, what can never be
read again, and habits of theirs that a resume has to know. By full names: nothing is imported.
"""

import copy
from collections.abc import Iterator
from typing import Any

from gradkeeper.engine.data.generators import near

# Full names.


def full_names(thing: Any) -> set[str]:
    """Of its class and of those that it comes from."""
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__}


HUGGING_FACE = "datasets.iterable_dataset.IterableDataset"
REBATCHED = "datasets.iterable_dataset.RebatchedArrowExamplesIterable"
MOSAIC = "streaming.base.dataset.StreamingDataset"
MOSAIC_LOADER = "streaming.base.dataloader.StreamingDataLoader"
SHUFFLE = "webdataset.filters._shuffle"
LITDATA_LOADER = "litdata.streaming.dataloader.StreamingDataLoader"
LITDATA_MIXES = {
    "litdata.streaming.combined.CombinedStreamingDataset",
    "litdata.streaming.parallel.ParallelStreamingDataset",
}
"""With workers, their states lead to other samples."""
FILTER = "webdataset.filters.FilterFunction"
RESAMPLED = "webdataset.shardlists.ResampledShards"


# A state that does not lead exactly back: then it is found by reading.


EXACT_STAGES = {
    f"datasets.iterable_dataset.{name}"
    for name in (
        "ArrowExamplesIterable",
        "ExamplesIterable",
        "FilteredExamplesIterable",
        "FormattedExamplesIterable",
        "MappedExamplesIterable",
        "SelectColumnsIterable",
        "SkipExamplesIterable",
        "TakeExamplesIterable",
    )
}
"""Stages of a Hugging Face stream whose state_dict() is their place. A shuffle's is not: the
examples in its buffer are lost."""


def place_is_lost(loader: Any) -> bool:
    """Whether something in it has a state that is not its place."""
    dataset = getattr(loader, "dataset", loader)
    names = full_names(dataset)
    if names & LITDATA_MIXES:
        return True
    if HUGGING_FACE not in names:
        return False
    # By itself such a stream starts each later epoch where it was resumed.
    return dataset is loader or not all(map(_is_exact, _stages(dataset._ex_iterable)))


def _is_exact(stage: Any) -> bool:
    names = full_names(stage)
    if REBATCHED in names:
        return bool(stage.batch_size == 1)
    # A batched map reads ahead of what it hands out.
    return bool(names & EXACT_STAGES) and not getattr(stage, "batched", False)


def _stages(stage: Any) -> Iterator[Any]:
    yield stage
    inner = getattr(stage, "ex_iterable", None)
    if inner is not None:
        yield from _stages(inner)
    for mixed in getattr(stage, "ex_iterables", ()):
        yield from _stages(mixed)


# What gives other batches in each process, and would be found out only at the resume.


def never_the_same(loader: Any) -> str:
    """Why; empty where nothing is known against it."""
    for _, thing, _ in near({"loader": loader}):
        names = full_names(thing)
        if FILTER in names and _shuffles_by_time(thing):
            return (
                "webdataset's shuffle() without a seed takes one from the time, so that no process "
                "reads what another has read: write .shuffle(size, rng=random.Random(0)), or "
                ".compose(wds.detshuffle(size, seed=0))"
            )
        if RESAMPLED in names and not thing.deterministic:
            return (
                "webdataset draws shards by the time and the process's number (resampled=True), so "
                "that no process reads what another has read: make a DataPipeline of "
                "wds.ResampledShards(urls, deterministic=True)"
            )
        if HUGGING_FACE in names and _has_no_seed(thing):
            return (
                "a stream of Hugging Face's is shuffled without a seed, so that no process reads "
                "what another has read: write .shuffle(seed=0)"
            )
        if MOSAIC in names:
            return (
                "a StreamingDataset of MosaicML counts epochs where a plain DataLoader does not "
                "keep them: read it with streaming.StreamingDataLoader"
            )
    return ""


def _shuffles_by_time(stage: Any) -> bool:
    function = f"{stage.f.__module__}.{stage.f.__qualname__}"
    size = stage.args[0] if stage.args else stage.kw.get("bufsize", 1000)
    seeded = any(stage.kw.get(name) is not None for name in ("rng", "seed")) or len(stage.args) > 2
    return function == SHUFFLE and size > 1 and not seeded


def _has_no_seed(dataset: Any) -> bool:
    return any(_is_from_the_system(stage) for stage in _stages(dataset._ex_iterable))


def _is_from_the_system(stage: Any) -> bool:
    """NumPy takes 128 bits from there; what people write is shorter."""
    bits = getattr(getattr(stage, "generator", None), "bit_generator", None)
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", 0)
    return isinstance(entropy, int) and entropy.bit_length() > 64


# Habits.


def forget_start(dataset: Any) -> None:
    """A Hugging Face stream would begin each epoch where it was resumed, not only the first."""
    if HUGGING_FACE in full_names(dataset):
        dataset.load_state_dict(None)


def state_of_loader(loader: Any) -> Any:
    """A dataset of litdata's that was resumed does not know the epoch any more; its loader does."""
    state = loader.state_dict()
    if LITDATA_LOADER in full_names(loader):
        state = copy.deepcopy(state)
        state["dataset"]["current_epoch"] = state["current_epoch"]
    return state


def begins_anew_at_the_end(loader: Any) -> bool:
    """Whether the state after an epoch's last batch is the begin of the next one."""
    return LITDATA_LOADER in full_names(loader)


def ends_twice(loader: Any) -> bool:
    """Whether an epoch that was at its end is handed out again, empty, before the next one."""
    return MOSAIC_LOADER in full_names(loader)
