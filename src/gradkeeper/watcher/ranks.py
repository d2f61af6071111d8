"""Several ranks under a launcher: what each did and found, brought to rank 0 through the launcher's
store when they have ended, and compared there.

Only at the end: a collective of ours in the middle of a job could hang it. Ranks exchange gradients
together or hang, so the n-th exchange of one is the n-th of all: that is the clock by which they
are compared afterwards. Rank 0 leaves last if it has findings to exit with: torchrun ends the
others as soon as one process exits with an error, in the middle of whatever they still write.
"""

import atexit
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from gradkeeper.model import Auditor, Because, Event, Finding, Severity, Site
from gradkeeper.model import events as ev
from gradkeeper.model.events import Measure
from gradkeeper.model.tape import Tape, read_file
from gradkeeper.replicas import Sums, first_difference
from gradkeeper.rules import ALL

MOST_RUNS = 20_000
"""Of turns that do not repeat themselves; what comes later is not compared."""


class Turn(NamedTuple):
    """From one exchange of gradients to the next, with the backwards that waited for the first."""

    backwards: int
    steps: tuple[bool, ...]
    """Of each optimizer that was asked to step, whether it did. Without its name: that may be
    another one on a rank whose program has more variables."""
    site: Site
    """The last step's, or else the backward's."""

    def did(self) -> tuple[object, ...]:
        """What must be equal on all ranks."""
        return self.backwards, self.steps

    def __str__(self) -> str:
        calls = f"{self.backwards} backward call{'s' if self.backwards > 1 else ''}"
        if not self.steps:
            return f"took no step after {calls}"
        taken, asked = sum(self.steps), len(self.steps)
        if not taken:
            return f"skipped its step after {calls}"
        if asked == 1:
            return f"stepped after {calls}"
        return f"took {taken} steps{f' of {asked}' if taken < asked else ''} after {calls}"


RepeatedTurns = tuple[tuple[Turn, ...], int]
"""Turns that came one after the other, and how often."""


class _Partners:
    """Which optimizers own something that ranks exchange the gradients of. What a rank trains for
    itself, as a probe of rank 0, is its own affair."""

    def __init__(self) -> None:
        self._owned: dict[str, set[str]] = {}
        """Accounts, by optimizer."""
        self._exchanged: set[str] = set()

    def learn(self, event: Event) -> None:
        match event:
            case ev.Adopt():
                self._owned.setdefault(event.optimizer, set()).update(event.accounts)
            case ev.Split():
                for accounts in (*self._owned.values(), self._exchanged):
                    if event.account in accounts:
                        accounts.update(event.into)
            case ev.Backward(synced=True):
                self._exchanged.update(event.accounts)

    def include(self, optimizer: str) -> bool:
        owned = self._owned.get(optimizer)
        return not owned or not owned.isdisjoint(self._exchanged)


class RankHistory:
    def __init__(self, runs: Iterable[RepeatedTurns] = ()) -> None:
        self.runs: list[RepeatedTurns] = list(runs)
        self._partners = _Partners()
        self._open: Turn | None = None
        self._waiting = 0
        """Backwards that were not exchanged yet."""

    def take(self, event: Event) -> None:
        self._partners.learn(event)
        match event:
            case ev.Backward(synced=False):
                self._waiting += 1
            case ev.Backward(synced=True):
                self.close()
                self._open = Turn(self._waiting + 1, (), event.site)
                self._waiting = 0
            case ev.Step() if self._open is not None and self._partners.include(event.optimizer):
                steps = (*self._open.steps, event.taken)
                self._open = Turn(self._open.backwards, steps, event.site)

    def repeat(self, exchanges: int, times: int) -> None:
        """As many of the last turns as `exchanges` came `times` more."""
        if not exchanges or len(self.runs) >= MOST_RUNS:
            return
        # The open one stays: it stands where it stood a round ago.
        last = tuple(islice(self._backwards(), exchanges))[::-1]
        self.runs.append((last, times))

    def close(self) -> None:
        turn, self._open = self._open, None
        if turn is None or len(self.runs) >= MOST_RUNS:
            return
        if self.runs and self.runs[-1][0] == (turn,):
            self.runs[-1] = ((turn,), self.runs[-1][1] + 1)
        else:
            self.runs.append(((turn,), 1))

    def _backwards(self) -> Iterator[Turn]:
        for turns, times in reversed(self.runs):
            for _ in range(times):
                yield from reversed(turns)

    def __iter__(self) -> Iterator[Turn]:
        for turns, times in self.runs:
            for _ in range(times):
                yield from turns


def read_runs(record: list[Any]) -> RankHistory:
    """A tally whose runs went through JSON."""
    runs = [(tuple(_turn(turn) for turn in turns), times) for turns, times in record]
    return RankHistory(runs)


def _turn(record: list[Any]) -> Turn:
    backwards, steps, site = record
    return Turn(backwards, tuple(steps), Site(*site))


def digests(tallies: list[RankHistory]) -> Iterator[ev.Digest]:
    """Where ranks did not do the same, as far as all of them went."""
    for exchange, turns in enumerate(zip(*tallies, strict=False), 1):
        if len({turn.did() for turn in turns}) > 1:
            yield _digest(turns, exchange)


def _digest(turns: tuple[Turn, ...], exchange: int) -> ev.Digest:
    """At the line where a rank stepped most often, which is where the others should have."""
    did = tuple(str(turn) for turn in turns)
    usual = max(did, key=did.count)
    odd = next((rank for rank, what in enumerate(did) if what != usual), 0)
    most = max((turns[odd], *turns), key=lambda turn: len(turn.steps))
    return ev.Digest(site=most.site, rank=odd, ranks=did, exchange=exchange)


PATIENCE = timedelta(seconds=30)
"""How long rank 0 waits for a rank, which may have crashed."""
HURRY = timedelta(seconds=3)
"""The same after a signal, whose sender waits for nobody."""
MOST_TOLD = 1_000
"""Windows in which ranks part; they are one finding for each line."""


class RankNews(NamedTuple):
    """What this rank has to tell the others."""

    runs: list[RepeatedTurns] | None
    """What it did; None if it did not end well."""
    replicas: dict[str, Any]
    """What its weights came to, by optimizer."""


def gather(
    findings: list[Finding],
    kept: RankNews,
    record: Callable[[Event], object],
    patience: timedelta = PATIENCE,
) -> list[Finding] | None:
    """What all ranks found, and where they parted, on rank 0; None on the others.

    `record` takes events to the tape.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = store_of_launcher(patience)
    if store is None:
        return findings if rank == 0 else None
    if rank:
        mine = {"findings": [asdict(finding) for finding in findings], **kept._asdict()}
        store.set(f"gradkeeper/{rank}", json.dumps(mine))
        return None
    everybody, all_runs, held = list(findings), [kept.runs], [kept.replicas]
    for other in range(1, size):
        told = _hear(store, other, patience)
        everybody += [_finding(record) for record in told.get("findings", ())]
        all_runs.append(told.get("runs"))
        held.append(told.get("replicas", {}))
    auditor = Auditor(ALL)
    for event in chain(_parted(all_runs), compared(held)):
        record(event)
        everybody += auditor.post(event)
    return everybody


def _parted(runs: list[list[Any] | None]) -> Iterator[ev.Digest]:
    """Nothing where a rank did not end well: how far it came tells nothing of its decisions."""
    tallies: list[RankHistory] = [read_runs(other) for other in runs if other is not None]
    if len(tallies) == len(runs):
        yield from islice(digests(tallies), MOST_TOLD)


def compared(held: list[dict[str, Any]]) -> Iterator[ev.Replicas]:
    """The weights of all ranks, as `ReplicaHistory.told` gives them, after each step that was
    looked at by those who should hold the same."""
    for optimizer in dict.fromkeys(name for replicas in held for name in replicas):
        mine = {
            rank: replicas[optimizer] for rank, replicas in enumerate(held) if optimizer in replicas
        }
        equal: int | None = None
        for step in sorted({sample[0] for own in mine.values() for sample in own["samples"]}):
            event = _at_step(optimizer, step, mine, len(held))
            if event is None:
                continue
            yield replace(event, equal=equal)
            if not event.parameter:
                equal = step


def _at_step(
    optimizer: str, step: int, held: dict[int, dict[str, Any]], world: int
) -> ev.Replicas | None:
    """None if no two ranks hold the same then."""
    samples = {
        rank: sample
        for rank, record in held.items()
        for sample in record["samples"]
        if sample[0] == step and len(record["names"]) == len(held[min(held)]["names"])
    }
    rows = []
    for place, rounding in enumerate(held[min(held)]["rounding"]):
        groups: dict[tuple[int, ...], list[tuple[int, Sums]]] = {}
        for rank, sample in samples.items():
            groups.setdefault(tuple(sample[2][place]), []).append((rank, Sums(*sample[3][place])))
        rows += [
            (place, rounding, together)
            for ranks, together in groups.items()
            if ranks and len(together) > 1
        ]
    if not rows:
        return None
    site = Site(*samples[min(samples)][1])
    event = ev.Replicas(site=site, optimizer=optimizer, step=step, world=world)
    found = first_difference([(rounding, together) for _, rounding, together in rows])
    if found is None:
        return event
    parameter = held[min(held)]["names"][rows[found.parameter][0]]
    odd = found.ranks[0] if len(found.ranks) == 1 else None
    return replace(event, rank=odd, parameter=parameter, differing=found.ranks)


def _hear(store: Any, rank: int, patience: timedelta) -> dict[str, Any]:
    try:
        store.wait([f"gradkeeper/{rank}"], patience)
        told: dict[str, Any] = json.loads(store.get(f"gradkeeper/{rank}"))
    except Exception:  # the store has several kinds of timeout; what is here is reported
        return {}
    return told


def store_of_launcher(patience: timedelta = PATIENCE) -> Any:
    """torchrun keeps a store alive beside the ranks; without it there is no common place."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    make: Any = vars(torch.distributed)["TCPStore"]
    return make(host, port, is_master=False, timeout=patience)


def _finding(record: dict[str, Any]) -> Finding:
    because = tuple(
        Because(**{**reason, "site": Site(*reason["site"])}) for reason in record["because"]
    )
    changed = {
        "site": Site(*record["site"]),
        "severity": Severity(record["severity"]),
        "because": because,
        "fix": None,
    }
    return Finding(**{**record, **changed})


MOST_BYTES = 4 << 20
"""Of a tape, compressed; torch's store takes 8 MiB at once. A longer one stays where it is."""


def send(tape: Path) -> bool:
    """False if it is too long. To be called before this rank's findings are sent: who hears those
    has the tape already."""
    packed = zlib.compress(_without_layers(tape).encode("utf-8", "surrogateescape"))
    if len(packed) > MOST_BYTES:
        return False
    with suppress(Exception):  # a launcher that has ended; the page is then of rank 0
        store = store_of_launcher()
        if store is not None:
            store.set(_tape_key(int(os.environ["RANK"])), packed)
    return True


def received(folder: Path) -> list[Path]:
    """The tapes that other ranks have sent, in the order of ranks."""
    tapes = []
    with suppress(Exception):  # as above
        store = store_of_launcher()
        for rank in range(1, int(os.environ["WORLD_SIZE"])):
            if store is not None and store.check([_tape_key(rank)]):
                path = folder / f"rank{rank}.tape"
                path.write_bytes(zlib.decompress(store.get(_tape_key(rank))))
                tapes.append(path)
    return tapes


def _tape_key(rank: int) -> str:
    return f"gradkeeper/tape/{rank}"


def _without_layers(path: Path) -> str:
    """What grows fastest, and is told of rank 0 only."""
    lines = StringIO()
    tape = Tape(lines, keep=False)
    for event in read_file(path):
        tape.record(replace(event, layers=(), norms=()) if isinstance(event, Measure) else event)
    return lines.getvalue()


UNTIL_LEFT = timedelta(seconds=15)
"""How long rank 0 waits for those who may have crashed."""


def tell_when_left() -> None:
    """To be called before the script: what it registers for its own end comes first then."""
    atexit.register(_tell)


def wait_until_left() -> None:
    others = [_left_key(rank) for rank in range(1, int(os.environ["WORLD_SIZE"]))]
    with suppress(Exception):  # the store has several kinds of timeout
        store = store_of_launcher()
        if store is not None:
            store.wait(others, UNTIL_LEFT)


def _tell() -> None:
    with suppress(Exception):  # the launcher has ended: nobody waits
        store = store_of_launcher()
        if store is not None:
            store.set(_left_key(int(os.environ["RANK"])), "")


def _left_key(rank: int) -> str:
    return f"gradkeeper/left/{rank}"
