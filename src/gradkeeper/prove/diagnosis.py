"""Where a restarted process parts from the uninterrupted run, what was not restored, and by how
much the parameters differ in the end.

A restart is put beside the place of the uninterrupted run that it resembles most, and both are
read on from there until a step leaves other weights. What differed up to then is the cause, as far
as a witness can see.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gradkeeper.checkpoint import Store
from gradkeeper.checkpoint.compare import distance, kind_of
from gradkeeper.prove.process import BackwardRecord, ProcessRecord


@dataclass(frozen=True)
class FirstDeviation:
    """The first restart after which things are not as they were."""

    kill: int
    step: int | None  # of the whole run, counted from 1; None where the weights were wrong at once
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Two runs side by side, from the same place on."""

    mine: list[BackwardRecord]
    whole: list[BackwardRecord]

    def __iter__(self) -> Iterator[tuple[BackwardRecord, BackwardRecord]]:
        return zip(self.mine, self.whole, strict=False)


def parting(
    kill: int, restart: ProcessRecord, whole: ProcessRecord, steady: frozenset[str]
) -> FirstDeviation | None:
    """None if the restart goes the way of the uninterrupted run."""
    if not restart.backwards:
        return None
    place = _place(restart.backwards[0], whole.backwards)
    if place is None:
        text = "weights: it begins with weights that the uninterrupted run had after no step"
        return FirstDeviation(kill, None, (text,))
    base = whole.backwards[place].step
    step = _first_wrong_step(restart, whole, base)
    if step is None:
        return None
    until = [backward for backward in restart.backwards if backward.step <= step]
    pairs = Pairs(until, whole.backwards[place:])
    causes = [*_causes(pairs, whole, steady), *_rates(restart, whole, base, step)]
    return FirstDeviation(kill, base + step + 1, tuple(causes or _last_resort(pairs)))


def began_anew(restart: ProcessRecord, whole: ProcessRecord) -> bool:
    """Whether it resumed nothing: it begins where the uninterrupted run began, and does all of it.

    Equal weights alone do not tell: in a first window, or while a warm-up leaves the weights as
    they are, a checkpoint holds those of the beginning.
    """
    if restart.began != whole.began:
        return False
    if restart.final is not None and len(restart.events) < len(whole.events):
        return False
    if not restart.backwards or not whole.backwards:
        return True
    return _place(restart.backwards[0], whole.backwards) == 0


def seeded(run: ProcessRecord, other: ProcessRecord) -> frozenset[str]:
    """The generators that two fresh starts found in the same state: the others are anybody's."""
    if not run.backwards or not other.backwards:
        return frozenset()
    left, right = run.backwards[0].generators, other.backwards[0].generators
    return frozenset(name for name in left if left[name] == right.get(name))


def _place(first: BackwardRecord, whole: list[BackwardRecord]) -> int | None:
    """The place that resembles it most, of those with its weights."""

    def likeness(candidate: BackwardRecord) -> tuple[bool, ...]:
        return (
            candidate.optimizer == first.optimizer,
            first.batch is not None and candidate.batch == first.batch,
            candidate.loss == first.loss,
            candidate.generators == first.generators,
            candidate.gradients == first.gradients,
        )

    found = [place for place, candidate in enumerate(whole) if candidate.weights == first.weights]
    return max(found, key=lambda place: likeness(whole[place]), default=None)


def _first_wrong_step(restart: ProcessRecord, whole: ProcessRecord, base: int) -> int | None:
    mine, theirs = restart.steps, whole.steps[base:]
    for number, (step, other) in enumerate(zip(mine, theirs, strict=False)):
        if step.weights != other.weights:
            return number
    if restart.final is not None and len(mine) != len(theirs):
        return min(len(mine), len(theirs))
    return None


def _causes(pairs: Pairs, whole: ProcessRecord, steady: frozenset[str]) -> Iterator[str]:
    yield from _pending(pairs)
    for mine, theirs in pairs:
        if mine.batch != theirs.batch:
            yield f"order of batches: {_in_place_of(mine, theirs, whole)}"
            break
    names = _generators(pairs, steady)
    if names:
        yield f"random numbers: the generator of {' and of '.join(names)} is in another state"
    if any(mine.optimizer != theirs.optimizer for mine, theirs in _first(pairs)):
        yield "optimizer: its state (momentum and the like) is not what it was"


def _first(pairs: Pairs) -> list[tuple[BackwardRecord, BackwardRecord]]:
    return list(pairs)[:1]


def _pending(pairs: Pairs) -> Iterator[str]:
    for mine, theirs in _first(pairs):
        if mine.gradients == theirs.gradients:
            return
        if mine.gradients is None:
            lost = (
                "1 micro-batch was" if theirs.micro == 1 else f"{theirs.micro} micro-batches were"
            )
            yield f"pending gradients: {lost} lost"
        elif theirs.gradients is None:
            yield "pending gradients: there are some where the uninterrupted run had none"
        else:
            yield "pending gradients: they are not those of the uninterrupted run"


def _in_place_of(mine: BackwardRecord, theirs: BackwardRecord, whole: ProcessRecord) -> str:
    said = f"where {_named(theirs)} should come"
    if mine.batch is None:
        return f"no loader gave a batch {said}"
    for backward in whole.backwards:
        if backward.batch == mine.batch:
            return f"{said}, it goes on with the batch of {_named(backward)}"
    return f"{said}, a batch comes that the uninterrupted run never had"


def _named(backward: BackwardRecord) -> str:
    return f"step {backward.step + 1}, micro-step {backward.micro + 1}"


def _generators(pairs: Pairs, steady: frozenset[str]) -> list[str]:
    for mine, theirs in pairs:
        names = [name for name in theirs.generators if name in steady]
        names = [name for name in names if mine.generators.get(name) != theirs.generators[name]]
        if names:
            return names
    return []


def _rates(restart: ProcessRecord, whole: ProcessRecord, base: int, until: int) -> Iterator[str]:
    pairs = zip(restart.steps[: until + 1], whole.steps[base:], strict=False)
    for mine, theirs in pairs:
        if mine.rates != theirs.rates:
            yield f"learning rate: {_numbers(mine.rates)} instead of {_numbers(theirs.rates)}"
            return


def _numbers(rates: tuple[float | None, ...]) -> str:
    return ", ".join("none" if rate is None else f"{rate:.6g}" for rate in dict.fromkeys(rates))


def _last_resort(pairs: Pairs) -> list[str]:
    differing = [theirs for mine, theirs in pairs if mine.loss != theirs.loss]
    if differing and differing[0].batch is None:
        return [
            "loss: it differs for the same weights and random numbers; what the batches held was "
            "not seen, as no DataLoader handed them out: were they drawn before the resume?"
        ]
    if differing:
        return [
            "loss: it differs for the same weights, batches and random numbers; something else was "
            "not restored, such as buffers (BatchNorm), a mode, a loss scale or data read by hand"
        ]
    return ["it cannot be told: what a witness sees before the step is as it was"]


# The parameters in the end


@dataclass(frozen=True)
class ParameterDifference:
    parameter: str
    elements: int
    of: int
    most: float | None  # None where they cannot be subtracted
    what: str


@dataclass(frozen=True)
class Comparison:
    differences: tuple[ParameterDifference, ...]
    parameters: int
    optimizers: tuple[int, int]  # as many as each run built


def compare(whole: Path, resumed: Path) -> Comparison:
    """The last optimizers of both: a restart need not build those whose work is done."""
    expected, other = _read(whole), _read(resumed)
    built = len(expected["parameters"]), len(other["parameters"])
    shared = slice(-min(built), None) if all(built) else slice(0, 0)
    names = [
        name or f"parameter {number} of optimizer {owner}"
        for owner, names in list(enumerate(expected["names"], 1))[shared]
        for number, name in enumerate(names, 1)
    ]
    pairs = list(zip_longest(_flat(expected, shared), _flat(other, shared)))
    names += [f"parameter {number}" for number in range(len(names) + 1, len(pairs) + 1)]
    return Comparison(tuple(_compared(names, pairs)), len(pairs), built)


def _read(folder: Path) -> Any:
    found = Store(folder).load()
    if found is None:
        raise FileNotFoundError(folder)
    return found.state


def _flat(state: Any, shared: slice) -> list[Any]:
    return [parameter for owned in state["parameters"][shared] for parameter in owned]


def _compared(names: list[str], pairs: list[tuple[Any, Any]]) -> Iterator[ParameterDifference]:
    for name, (expected, other) in zip(names, pairs, strict=True):
        if expected is None or other is None:
            run = "uninterrupted" if expected is None else "killed"
            count = (expected if other is None else other).numel()
            yield ParameterDifference(name, count, count, None, f"the {run} run does not have it")
        elif (expected.dtype, expected.shape) != (other.dtype, other.shape):
            count = expected.numel()
            what = f"{kind_of(expected)} became {kind_of(other)}"
            yield ParameterDifference(name, count, count, None, what)
        else:
            found = distance(expected, other)
            if found is not None:
                most = f", by at most {found.most:.3g}" if found.elements else ""
                what = found.in_words + most
                yield ParameterDifference(name, found.elements, found.of, found.most, what)
