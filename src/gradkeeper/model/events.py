"""What can happen to a gradient, one frozen value per happening.

An event says what was done, where, and on which accounts; it knows nothing of what went before.
Accounts, optimizers, scalers and schedulers are named by strings that a person would recognise.
"""

from dataclasses import dataclass
from typing import Literal

from gradkeeper.model.site import Site

Names = tuple[str, ...]
Reduction = Literal["mean", "sum", "assumed mean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    site: Site
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Open(Event):
    """Describes an account: a cohort of parameters that move together."""

    account: str
    parameters: Names = ()
    size: int = 1
    trainable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Event):
    """The parameters of one account part: each part goes on with the whole account's history."""

    account: str
    into: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Event):
    """An optimizer takes accounts as its own. `stateful`: it remembers something between steps."""

    optimizer: str
    accounts: Names
    stateful: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Event):
    """A batch was fetched, or a loop without a loader began its next round.

    `fetched` is False where that was told before, of several in a row: now this one is used.
    """

    source: str = ""
    fetched: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegin(Event):
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd(Event):
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle(Event):
    """A sampler that shares data out among ranks laid out the order of an epoch.

    `source` is the loader, as its batches name it. One `sampler` lays out the same order whenever
    it is asked with the same `seed`.
    """

    source: str
    sampler: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Event):
    """A loader was told where in its data to go on: what it iterates over next begins there."""

    loader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun(Event):
    """A batch came from an iterator of this loader that was there before the loader was told."""

    loader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(Event):
    """A loss was computed from these accounts' weights."""

    accounts: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(Event):
    """Gradients were added to accounts. None stands for what is not known.

    `multiplier` is what the loss was multiplied by on its way (0.25 for `loss / 4`), a scaler's
    factor aside. `reduction` is "assumed mean" where nothing says what the loss is, but the program
    calls its window accumulation, and nothing that was not seen could have divided it.
    `ignored` counts the items that ignore_index removed, `items` those that stayed.
    `leaf`: a tensor that is no parameter received a gradient too. `synced`: whether the ranks
    exchanged gradients (None where there is one rank only). `within`: the optimizer whose step is
    running, for closures and hooks. `unseen`: a part of the loss comes from code that was not seen,
    so that it may reach further accounts, and may have been scaled there. `twice`: the number by
    which the loss was divided, and then divided again, as a framework does that counts windows.
    """

    accounts: Names
    multiplier: float | None = None
    reduction: Reduction | None = None
    items: int | None = None
    ignored: int | None = None
    leaf: bool = False
    scaler: str | None = None
    autocast: str | None = None
    coupled: bool = False
    synced: bool | None = None
    within: str | None = None
    unseen: bool = False
    twice: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Event):
    """Gradients were put in place by hand (`p.grad = g`), replacing what was there."""

    accounts: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjust(Event):
    """Gradients were changed in place by hand: divided, projected, given noise.

    `guarded` is False where the code would fail on a gradient that is None. `adds`: something was
    added or copied in, which makes a gradient of zeros into one.
    """

    accounts: Names
    guarded: bool = True
    adds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Event):
    """Gradients were read for their own sake: logged to a buffer, squared for a Fisher matrix."""

    accounts: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Event):
    """The ranks exchanged their gradients."""

    accounts: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Event):
    """A loss was multiplied by a scaler's factor."""

    scaler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscale(Event):
    scaler: str
    optimizer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Event):
    """A scaler chose its next factor."""

    scaler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(Event):
    """`bound` None is unknown; `scale_aware`: the bound was multiplied by the scaler's factor;
    `refused`: it raised, because there was no gradient at all."""

    accounts: Names
    bound: float | None = None
    scale_aware: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Event):
    """An optimizer stepped, by itself or through `scaler`; `taken` is False if the scaler refused.

    `finite` is False when what was spent is known to hold NaN or inf. `loss` and `norm` are those
    of the window, the norm before clipping, where whoever stepped knew them anyway. `hooked`: it
    was called from within a backward, by a hook of the gradient that it spends.
    """

    optimizer: str
    taken: bool = True
    scaler: str | None = None
    finite: bool | None = None
    loss: float | None = None
    norm: float | None = None
    hooked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Zero(Event):
    """Gradients were cleared. `waived`: what goes is known to be unfit, and dropped on purpose.

    `guarded` is False where the code would fail on a gradient that is None.
    """

    accounts: Names
    to_none: bool = True
    guarded: bool = True
    waived: bool = False
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Event):
    """Weights were changed by hand; `gradient`: the change is known to be made of the gradient."""

    accounts: Names
    gradient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(Event):
    """State was saved; `optimizers` names those whose state is in it, `gradients` if .grad is.

    `path` is the file, where whoever loads it again can be told to do so.
    """

    accounts: Names
    optimizers: Names = ()
    gradients: bool = False
    disk: bool = True
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Event):
    """Weights (and, with `gradients`, pending gradients) were loaded, from disk or from memory.

    `path` is the file, where it is known. `optimizers` are those whose own state was loaded.
    """

    accounts: Names
    gradients: bool = False
    disk: bool = True
    path: str = ""
    optimizers: Names = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Event):
    """A scheduler moved on; `metric`: it was fed a measurement, or told its position."""

    scheduler: str
    optimizer: str
    metric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    """An exception was raised and caught. `torn`: inside backward, which is half done."""

    accounts: Names
    torn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape(Event):
    """Something went to code that was not seen, which may have done anything with it.

    Rules that conclude from what did *not* happen ask for this, and are silent from then on about
    what went: whether an optimizer stepped, zeroed or took further parameters, whether a parameter
    was filled, moved, zeroed or taken by an optimizer, is no longer known. Reading needs it; a
    watcher sees what happens wherever the code lies, and tells it only of what went from the thread
    that built it to one that trains it.

    `optimizers` and `accounts` name what went: for `helper(model, optimizer)` both, for a scaler
    the optimizers that it steps, for a loop whose step could not be followed those that may have
    been stepped in it. `everything`: what went cannot be told (an optimizer over parameters that
    are not known, a loop that unseen code drives); this holds for what is named later, too. A loss
    of which a part is not known is told by its Backward (`unseen`). Post it where it happens:
    what came before stays known. `given`: they came from there instead, as a function's arguments
    do, and are out of sight only before and after what is told here. `passing`: a call that may
    have done something there and then, and is over: what waited then may have been spent by it.
    """

    optimizers: Names = ()
    accounts: Names = ()
    everything: bool = False
    given: bool = False
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaust(Event):
    """A one-shot iterator of parameters was used again, and gave nothing."""

    use: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Event):
    """A running total grew, and holds on to the graphs of losses whose backward is done.

    `total` is the variable, `steps` counts the steps for which those losses were, and `lines` are
    the places of their backwards.
    """

    total: str
    steps: int
    lines: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest(Event):
    """What each rank did in one window, in the order of ranks.

    `exchange` counts the exchanges of gradients up to it, where it is told only afterwards.
    """

    ranks: Names
    exchange: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas(Event):
    """Ranks compared the weights that they should hold alike, after a step of an optimizer.

    `parameter` is the first that differs and `differing` are the ranks that hold it otherwise than
    most do; where all are equal, both are empty. `equal` is the last step before it after which no
    rank differed, None where none was compared. `world` counts the ranks.
    """

    optimizer: str
    step: int
    world: int
    parameter: str = ""
    differing: tuple[int, ...] = ()
    equal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Event):
    """What a step is about to spend, in numbers. Taken only when asked for: it reads values.

    `step` counts the optimizer's taken steps from 1. `loss` is the sum of the losses that are
    spent, `norm` that of all gradients, `unclipped` what a clip found. `norms` goes with `layers`.
    """

    optimizer: str
    step: int
    loss: float | None = None
    norm: float | None = None
    unclipped: float | None = None
    layers: Names = ()
    norms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Again(Event):
    """The last `length` events came `times` more, all alike, and were not written down.

    Measurements do not count among them: they are written down every time.
    `optimizers` are those that stepped in one repetition, `lines` the sites of its backwards; each
    stands there as often as it came.
    """

    length: int
    times: int
    optimizers: Names = ()
    lines: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Close(Event):
    """The books are closed: of these optimizers, or of all.

    `early`: training went on from here, unseen; what waits now may have been spent.
    """

    optimizers: Names | None = None
    early: bool = False


KINDS: dict[str, type[Event]] = {
    "open": Open,
    "split": Split,
    "adopt": Adopt,
    "batch": Batch,
    "epoch-begin": EpochBegin,
    "epoch-end": EpochEnd,
    "shuffle": Shuffle,
    "resume": Resume,
    "overrun": Overrun,
    "forward": Forward,
    "backward": Backward,
    "assign": Assign,
    "adjust": Adjust,
    "read": Read,
    "reduce": Reduce,
    "scale": Scale,
    "unscale": Unscale,
    "update": Update,
    "clip": Clip,
    "step": Step,
    "zero": Zero,
    "move": Move,
    "save": Save,
    "restore": Restore,
    "tick": Tick,
    "fault": Fault,
    "escape": Escape,
    "exhaust": Exhaust,
    "keep": Keep,
    "digest": Digest,
    "replicas": Replicas,
    "measure": Measure,
    "again": Again,
    "close": Close,
}
