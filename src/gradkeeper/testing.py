"""Assertions for users' own training steps and loaders, in pytest style."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gradkeeper.prove import KILLS
from gradkeeper.prove import SEED as KILLS_SEED

BatchParts = list[Any]
Result = nn.Module | Mapping[str, Tensor] | Iterable[Tensor]
TrainStep = Callable[[BatchParts], Result]

SEED = 0


def assert_partition_invariant(
    step: TrainStep,
    batch: Any,
    *,
    partitions: Iterable[Sequence[int]] | None = None,
    tolerance: float | None = None,
) -> None:
    """Fails if what `step` makes of a batch depends on how the batch is cut into micro-batches.

    `step(parts)` gets a list of micro-batches, starts from the same weights each time, and returns
    a module (its gradients are compared, or its weights where it has none), or tensors. `batch` is
    a tensor, or a tuple, list or dict of them, cut along their first dimension. `tolerance` is
    relative to the largest number of each tensor: by default 1e-5, in float64 1e-10.

        def step(parts):
            model = build()
            for x, y in parts:
                (loss_fn(model(x), y) * len(y) / total).backward()
            return model

        assert_partition_invariant(step, (x, y))
    """
    size = _size(batch)
    whole = _run(step, _cut(batch, [size]))
    again = _run(step, _cut(batch, [size]))
    for name in whole:
        if not _close(again[name], whole[name], tolerance):
            raise AssertionError(
                f"{name} differs between two runs on the same batch: let step() build its model "
                "anew each time, so that only the partition changes"
            )
    for sizes in partitions or _partitions(size):
        _compare(whole, _run(step, _cut(batch, sizes)), sizes, tolerance)


def assert_resume_exact(
    command: str | Sequence[str],
    *,
    kills: int = KILLS,
    seed: int = KILLS_SEED,
    share: Sequence[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> None:
    """Fails unless a training script that is killed resumes, and ends with the same weights.

    `command` is run as `gradkeeper prove-resume` runs it: once to the end, and once killed after
    `kills` random steps, each time in a fresh copy of the working folder. ProveError if nothing
    can be said: the script fails by itself, takes no step, or does not repeat itself. No start may
    take longer than `timeout` seconds; left out, restarts get many times what the whole run took.

        assert_resume_exact("python train.py --epochs 3")
    """
    from gradkeeper.prove.proof import prove
    from gradkeeper.prove.verdict import as_text

    words = shlex.split(command) if isinstance(command, str) else list(command)
    folder = None if cwd is None else Path(cwd)
    proof = prove(words, kills=kills, seed=seed, share=share, cwd=folder, timeout=timeout)
    if not proof.exact:
        raise AssertionError(as_text(proof))


def assert_loader_resumes(
    loader: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    epochs: int = 2,
    batches: int | None = None,
) -> None:
    """Fails unless a run that is killed anywhere in a loader goes on with the very same batches.

    The data pipeline alone, without model and checkpoint: the loader is read for `epochs` epochs as
    the engine reads it, and then from every place in them in a process of its own. Compared are the
    batches, bit by bit, and the random numbers that a training would draw between them.

        assert_loader_resumes(DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2))

    It reads about as often as there are places, so give it a small part of the data; `batches=20`
    reads no more than the first 20 batches, also of a loader without an end. With the function that
    builds the loader in its place, each process builds its own: then a seed that is missing in
    there is found as well.
    """
    from gradkeeper.engine.data.trial import fault_of

    for name, count in (("epochs", epochs), ("batches", batches)):
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ValueError(f"{name}={count!r}: a whole number, and at least one is to be read")
    fault = fault_of(_builder(loader), epochs=epochs if batches is None else 1, batches=batches)
    if fault:
        raise AssertionError(fault)


def _builder(loader: Any) -> Callable[[], Iterable[Any]]:
    # A loader may be callable as well, as a wrapped iterable is.
    is_loader = hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
    if not (is_loader or callable(loader)):
        raise TypeError(f"a loader, or a function that builds one, not {loader!r}")
    return (lambda: loader) if is_loader else loader


def _partitions(size: int) -> list[list[int]]:
    """In halves, uneven, one by one."""
    half = size // 2
    cuts = [[half, size - half], [1, size - 1], [size - 1, 1], [1] * size]
    return [sizes for sizes in cuts if all(sizes)]


def _run(step: TrainStep, parts: BatchParts) -> dict[str, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        result = step(parts)
    return {name: tensor.detach().clone() for name, tensor in _named(result).items()}


def _named(result: Result) -> dict[str, Tensor]:
    if isinstance(result, Mapping):
        return dict(result)
    if isinstance(result, nn.Module):
        parameters = dict(result.named_parameters())
        held = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        return held or {name: p.detach() for name, p in parameters.items()}
    return {f"tensor {place}": tensor for place, tensor in enumerate(result)}


def _compare(
    whole: dict[str, Tensor], cut: dict[str, Tensor], sizes: Sequence[int], tolerance: float | None
) -> None:
    if whole.keys() != cut.keys():
        odd = ", ".join(sorted(whole.keys() ^ cut.keys()))
        raise AssertionError(f"cut into {list(sizes)}, the step does not return the same: {odd}")
    for name, expected in whole.items():
        if not _close(cut[name], expected, tolerance):
            raise AssertionError(
                f"{name} depends on how the batch is cut: in parts of {list(sizes)} it is off by "
                f"{_error(cut[name], expected):.2g} of its largest value. Weigh each part by its "
                "items: window.backward(loss, weight=len(y))"
            )


def _close(found: Tensor, expected: Tensor, tolerance: float | None) -> bool:
    default = 1e-10 if expected.dtype in (torch.float64, torch.complex128) else 1e-5
    return _error(found, expected) <= (default if tolerance is None else tolerance)


def _error(found: Tensor, expected: Tensor) -> float:
    largest = float(expected.abs().max())
    difference = float((found - expected).abs().max())
    return difference / largest if largest else difference


def _size(batch: Any) -> int:
    match batch:
        case Tensor():
            return len(batch)
        case Mapping():
            return _size(next(iter(batch.values())))
        case list() | tuple():
            return _size(batch[0])
    raise TypeError(f"a batch is made of tensors, and this is {type(batch).__name__}")


def _cut(batch: Any, sizes: Sequence[int]) -> BatchParts:
    match batch:
        case Tensor():
            return list(torch.split(batch, list(sizes)))
        case Mapping():
            columns = {key: _cut(value, sizes) for key, value in batch.items()}
            return [
                {key: column[place] for key, column in columns.items()}
                for place in range(len(sizes))
            ]
    return [type(batch)(row) for row in zip(*(_cut(part, sizes) for part in batch), strict=True)]
