"""The engine hands out windows and knows who owns what. What a window does: see window.py."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from gradkeeper.checkpoint.store import KEEP
from gradkeeper.checkpoint.weight_files import SHARD_BYTES, Form
from gradkeeper.engine.batches import EngineLoop, LoopKind, MicroBatches, Stream, mover
from gradkeeper.engine.data.choose_feed import UNSTATED, Unstated
from gradkeeper.engine.determinism import Probe, ask_for_determinism, on_gpu
from gradkeeper.engine.errors import EngineError, SetupError, UnknownOwnerError, UnusedWindowError
from gradkeeper.engine.journal import Journal, warn_at
from gradkeeper.engine.leftovers import Leftovers
from gradkeeper.engine.owner import Owner, PrecisionName, open_books, owners_of
from gradkeeper.engine.progress import (
    ForgivingLog,
    Log,
    progress_for,
    tell_census,
    values_of,
    windows_in,
)
from gradkeeper.engine.ranks import Sync, ranks_of
from gradkeeper.engine.resume.run_folder import folder_of
from gradkeeper.engine.resume.saver import Saver
from gradkeeper.engine.resume.weights import export, weights_of
from gradkeeper.engine.shared import Shared
from gradkeeper.engine.window import Window
from gradkeeper.model import Tape

Thing = TypeVar("Thing")


class Engine:
    """Runs training windows: every gradient a loss produces reaches the weights exactly once.

    model: what is trained. With several owners (a GAN's two networks), a dict of them by name.
        Under torchrun it is wrapped in DistributedDataParallel or sharded by fully_shard already.
    optimizer: what spends its gradients; with several owners, a dict by the same names.
    scheduler: ticks once for each step taken, and is saved too; with several owners, a dict by
        name. ReduceLROnPlateau is saved, but its metric is yours: call its step(metric) between
        windows.
    clip_norm: gradients whose norm over all parameters is larger are scaled down to it, after they
        are normalised and before the step. One number, or a dict by owner.
    clip_value: each entry of the gradients is cut to between -clip_value and clip_value. One number
        or a dict by owner; not together with clip_norm.
    precision: "fp32", or "bf16" or "fp16" for autocast inside windows; fp16 brings a loss scale.
    on_nonfinite: NaN or inf in the gradients never reach the weights; "raise" raises
        NonFiniteError, "skip" takes no step and goes on. An overflow of fp16's scale is a skip.
    sync: on several ranks, on which micro-batches of a window gradients are exchanged: "last"
        (default for DDP) or "every" (default for FSDP2). "shards", where groups of ranks shard and
        each group is a copy (HSDP): within a group on every one, between the copies on the last.
    to: a device that micro-batches are moved to, whatever they are made of; None leaves them.
    progress: shows a bar for each epoch, on the first rank only.
    log: a function that is called with the step and a dict of numbers (loss, grad_norm, weight,
        lr, stepped) after each window. If it raises at its first call, so does the window; later
        that is a warning, once, and the training goes on.
    tape: a Tape of your own, on which the engine writes down all that it does; left out, the latest
        events are kept in memory.
    checkpoint: a folder or an fsspec URL to save to and to resume from: every `save_every` steps,
        when save() asks for it, and on SIGTERM and SIGUSR1.
    save_every: saves after so many steps, while training goes on; None saves only when asked.
    keep: how many of the newest checkpoints stay; two at least.
    keep_every: those whose number it divides stay too, however old; None keeps none of them.
    overwrite: another run's checkpoints in the folder are replaced at the first save; else that is
        refused.
    unstated: what becomes of a loader that cannot say where it is: on resume its batches are "read"
        again up to the place, or it is "refuse"d before training begins.
    deterministic: sets torch.use_deterministic_algorithms and cudnn.benchmark for the whole
        process, so that an operation that cannot repeat itself raises; refused where a setting that
        it needs had to be made before the process began.
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module],
        optimizer: Optimizer | Mapping[str, Optimizer],
        *,
        scheduler: Any = None,
        clip_norm: float | Mapping[str, float] | None = None,
        clip_value: float | Mapping[str, float] | None = None,
        precision: PrecisionName = "fp32",
        on_nonfinite: Literal["raise", "skip"] = "raise",
        sync: Sync | None = None,
        to: str | torch.device | None = None,
        progress: bool = True,
        log: Log | None = None,
        tape: Tape | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        save_every: int | None = None,
        keep: int = KEEP,
        keep_every: int | None = None,
        overwrite: bool = False,
        unstated: Unstated = UNSTATED,
        deterministic: bool = False,
    ) -> None:
        if on_nonfinite not in ("raise", "skip"):
            raise SetupError(f"on_nonfinite is 'raise' or 'skip', not {on_nonfinite!r}")
        if unstated not in ("read", "refuse"):
            raise SetupError(f"unstated is 'read' or 'refuse', not {unstated!r}")
        if log is not None and not callable(log):
            raise SetupError(
                f"log is a function of the step and a dict of numbers, not {log!r}: "
                "gradkeeper.integrations has Scalars for TensorBoard, wandb and MLflow"
            )
        self._owners = owners_of(model, optimizer, scheduler, clip_norm, clip_value, precision)
        if deterministic:
            ask_for_determinism(gpu=on_gpu(self._owners.values()))
        self._move = mover(to)
        self._journal = Journal(tape)
        self._log = None if log is None else ForgivingLog(log, self._journal)
        ranks = ranks_of(self._owners.values(), sync, self._journal)
        self._journal.rank = ranks.rank
        self._progress = progress_for(wanted=progress and ranks.first)
        self._shared = Shared(
            journal=self._journal,
            ranks=ranks,
            leftovers=Leftovers(list(self._owners.values())),
            raise_nonfinite=on_nonfinite == "raise",
            closed=self._closed,
            told_of_coupling=not ranks.first,
        )
        open_books(self._owners.values(), self._journal)
        if ranks.first:
            tell_census(self._owners)
        folder = folder_of(checkpoint, ranks, keep=keep, keep_every=keep_every, overwrite=overwrite)
        self._saver = Saver(
            self._owners, self._shared, folder, save_every=save_every, unstated=unstated
        )

    @property
    def tape(self) -> Tape:
        """What the engine did: all of it on a tape of your own, else the latest."""
        return self._journal.tape

    @property
    def steps(self) -> dict[str, int]:
        """Steps taken so far, by owner."""
        return {name: owner.steps for name, owner in self._owners.items()}

    def window(self, owner: str | None = None) -> Window:
        """One window, for micro-batches that the caller brings.

        owner: whose parameters it credits; may be left out where there is one owner only.
        """
        return Window(self._owner(owner), self._shared)

    def windows(self, loader: Iterable[Any], size: int = 1, epochs: int = 1) -> Iterator[Window]:
        """Windows of `size` micro-batches; a short tail of an epoch is one more window.

        loader: a DataLoader, a list, or anything that can be iterated anew for each epoch.
        size: micro-batches in a window, on each rank.
        epochs: how often the loader is read through.
        """
        _check_counts(size=size, epochs=epochs)
        return self._windows(self._owner(None), self._loop("windows", loader, size, epochs))

    def _windows(self, owner: Owner, loop: EngineLoop) -> Iterator[Window]:
        with self._saver.reading(loop):
            for stream in self._epochs(loop):
                unread = 0
                while loop.open or self._more(stream):
                    again = loop.take_open()
                    window = Window(owner, self._shared, stream=stream, size=loop.size, again=again)
                    yield window
                    self._advance(loop)
                    unread = 0 if window.read or stream.ended else unread + 1
                    _check_used(window, unread)

    def batches(self, loader: Iterable[Any], size: int = 1, epochs: int = 1) -> Iterator[list[Any]]:
        """Groups of `size` micro-batches, for loops with several owners; the last may be short.

        loader: as for windows().
        size: micro-batches in a group, each of which may be read more than once.
        epochs: how often the loader is read through.
        """
        _check_counts(size=size, epochs=epochs)
        return self._groups(self._loop("batches", loader, size, epochs))

    def _groups(self, loop: EngineLoop) -> Iterator[list[Any]]:
        with self._saver.reading(loop):
            for stream in self._epochs(loop):
                while self._more(stream):
                    group = self._shared.ranks.group(stream, loop.size)
                    if group:
                        yield group
                        self._advance(loop)

    def save(self) -> None:
        """Saves at the next boundary: before another micro-batch is fetched, or as a loop ends.

        With batches(), between groups; where there is no loop, at once, or as the window ends.
        """
        self._saver.ask()

    def resume(self) -> bool:
        """Goes on from the newest good checkpoint; False if there is none yet.

        To be called before the first loop. The program then runs as it did: loops that were over
        hand out nothing, and the one that was running goes on, in mid-window if need be.
        """
        return self._saver.resume()

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        to: Form = "safetensors",
        owner: str | None = None,
        shard_bytes: int = SHARD_BYTES,
        overwrite: bool = False,
    ) -> list[str]:
        """Writes the model's weights for others to read, and returns the files. On several ranks,
        all of them call it.

        path: a folder, as from_pretrained() reads it; or, if it ends in .safetensors, one file.
        to: "safetensors", or "dcp" for a folder that torch.distributed.checkpoint reads.
        owner: whose model; may be left out where there is one owner only.
        shard_bytes: a folder gets several files and an index where its weights take more.
        overwrite: weights that are there already are replaced; else that is refused.
        """
        model = self._owner(owner).model
        weights, left = weights_of(model)
        if left and self._shared.ranks.first:
            warn_at(
                self._journal.here(),
                f"{', '.join(left[:3])} of the model's state is no tensor, and is not exported",
            )
        return export(
            weights,
            path,
            to=to,
            shard_bytes=shard_bytes,
            overwrite=overwrite,
            peers=self._shared.ranks.peers(),
        )

    def aside(self) -> AbstractContextManager[None]:
        """Around what is not training: evaluation, sampling, a warm-up. For a `with` block.

        What is new is saved as the block begins, behind it, so that SIGTERM and SIGUSR1 end the
        process at once, wherever in the block it is. Random numbers drawn inside are taken back at
        its end, and so is what an optimizer's eval() and train() round: the training does not
        depend on them, nor on whether the block was cut off. A run that resumes goes on behind a
        block inside a loop, and runs one between loops again.

        Inside a loop of batches(), and on several ranks, the save waits for the next boundary as
        elsewhere. Without `checkpoint=` only the random numbers are kept apart.
        """
        return self._saver.aside()

    def probe(self, step: Callable[[Window], object], owner: str | None = None) -> Probe:
        """Runs one window twice from one state, and compares weights and buffers bit by bit.

        Nothing is trained by it: weights, optimizer, scheduler, random generators and what is
        tracked are put back, and nothing is saved, logged or shown. A third run asks torch which
        operations it has no deterministic algorithm for. Needs memory for two more copies of all.

        step: what stands inside the window's block; takes the window, and makes its backward calls
            on a batch that you bring.
        owner: whose window; may be left out where there is one owner only.
        """
        mine = self._owner(owner)
        if self._shared.ranks.rank is not None:
            raise EngineError("a probe runs in one process: start this program without torchrun")

        def once() -> None:
            with Window(mine, self._shared) as window:
                step(window)
            if not window.stepped:
                raise EngineError(f"the probe's window took no step: {window.reason}")

        closed, self._shared.closed = self._shared.closed, _not_told
        try:
            return self._saver.probe(mine, once)
        finally:
            self._shared.closed = closed

    def track(self, name: str, thing: Thing) -> Thing:
        """Keeps `thing` too, and hands it back.

        name: under which it is saved.
        thing: anything with state_dict() and load_state_dict(), a random generator, a list or a
            dict. It is filled again in place, at resume() or when it is tracked after that.
        """
        self._saver.track(name, thing)
        return thing

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds, as it is now, for storage of your own. It shows live tensors."""
        return self._saver.state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what state_dict() gave, as resume() does from a checkpoint.

        state: of an engine of the same model, optimizer, loader and window size.
        """
        self._saver.load(state)

    def _loop(self, kind: LoopKind, loader: Iterable[Any], size: int, epochs: int) -> EngineLoop:
        number, feed = self._saver.loaders.of(loader)
        stream = self._shared.ranks.even(Stream(loader, feed, self._move, self._journal))
        return EngineLoop(kind, size, epochs, stream, number)

    def _epochs(self, loop: EngineLoop) -> Iterator[MicroBatches]:
        """The same stream, once for each epoch that is left."""
        try:
            for epoch in loop.epochs_left():
                for owner in self._owners.values():
                    owner.schedule.begin_epoch(self._journal.site)
                windows = windows_in(loop.stream.length, loop.size)
                self._progress.begin(epoch, loop.epochs, windows, loop.handed)
                yield loop.stream
            for owner in self._owners.values():
                self._shared.ranks.ended(owner)
        except BaseException:
            self._shared.ranks.left()
            raise
        finally:
            self._progress.end()

    def _more(self, stream: MicroBatches) -> bool:
        self._shared.ranks.meet(stream)
        if self._shared.asked and stream.between:
            self._shared.boundary()
        return stream.more()

    def _advance(self, loop: EngineLoop) -> None:
        loop.handed += 1
        self._progress.advance()

    def _owner(self, name: str | None) -> Owner:
        if name is None and len(self._owners) == 1:
            return next(iter(self._owners.values()))
        known = ", ".join(repr(owner) for owner in self._owners)
        if name is None:
            raise UnknownOwnerError(
                f"this engine has owners {known}: say which one a window credits, with "
                "engine.window(owner=…), and take the data from engine.batches(loader)"
            )
        if name not in self._owners:
            raise UnknownOwnerError(f"there is no owner {name!r}; there are: {known}")
        return self._owners[name]

    def _closed(self, window: Window) -> None:
        self._tell(window)
        self._saver.closed()

    def _tell(self, window: Window) -> None:
        self._progress.closed(window)
        if self._log is not None:
            rate = self._owners[window.owner].optimizer.param_groups[0]["lr"]
            prefix = "" if len(self._owners) == 1 else f"{window.owner}/"
            self._log(window.step, values_of(window, float(rate), prefix=prefix))


def _not_told(window: Window) -> None:
    return


def _check_counts(**counts: int) -> None:
    for name, number in counts.items():
        if not isinstance(number, int) or number < 1:
            raise SetupError(f"{name} is a whole number from 1 on, not {number!r}")


def _check_used(window: Window, unread: int) -> None:
    """What is not read goes to the next window, so a loop that reads nothing would never end."""
    if window.state == "new":
        raise UnusedWindowError(
            "a window was handed out and never entered: write `with window:` around its losses"
        )
    if unread > 1:
        raise UnusedWindowError(
            "two windows in a row read none of their micro-batches, and the same ones would come "
            "again for ever: write `for batch in window:` inside the block"
        )
