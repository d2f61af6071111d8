"""The run with kills: what its starts tell, one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gradkeeper.prove.checking import checked, how_it_ended
from gradkeeper.prove.diagnosis import Parting, began_anew, parting, seeded
from gradkeeper.prove.errors import ProveError
from gradkeeper.prove.record import Record
from gradkeeper.prove.running import Ended, Point
from gradkeeper.prove.verdict import Kill


@dataclass
class Killed:
    starts: list[Ended] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    kills: list[Point] = field(default_factory=list)
    left: tuple[str, ...] = ()  # files in the copy at the last kill that it had written itself

    @property
    def records(self) -> list[Record]:
        return [one.record for one in self.starts if one.record is not None]

    def base(self, record: Record) -> int | None:
        """The step that a process went on from; None if its weights are those of none."""
        return self.known.get(record.began or "")

    def learn(self, record: Record, otherwise: int) -> None:
        base = self.base(record)
        base = otherwise if base is None else base
        for number, step in enumerate(record.steps, 1):
            self.known.setdefault(step.weights, base + number)


def steps_by_weights(whole: Record) -> dict[str, int]:
    """Where a warm-up from 0 leaves weights as they were, the earliest step."""
    known = {whole.began or "": 0}
    for number, step in enumerate(whole.steps, 1):
        known.setdefault(step.weights, number)
    return known


def refuse_what_is_not_fresh(killed: Killed) -> None:
    """Asked of the first start only."""
    first = killed.starts[0]
    if len(killed.starts) > 1:
        return
    if first.record is None or killed.base(first.record):
        raise ProveError(
            "the second run did not start from the beginning: it found what the first one saved. "
            "Let the script save into its working folder, or name the folder in its arguments: "
            "each run gets its own of these, and of nothing else"
        )
    if first.code != 0 and not first.record.killed:
        checked(first)


def resumptions(killed: Killed, whole: Record) -> Iterator[Kill]:
    for point, following in zip(killed.kills, killed.starts[1:], strict=False):
        record = following.record
        if record is None:
            yield Kill(point, None)
        else:
            yield Kill(point, killed.base(record), began_anew(record, whole))


def failure(killed: Killed) -> str | None:
    last = killed.starts[-1]
    number = len(killed.kills)
    again = f"started again after kill {number}, it"
    if last.late is not None:
        return f"{again} has not ended after {last.late:g} seconds:{last.last_words()}"
    if last.code != 0:
        return f"{again} fails {how_it_ended(last)}:{last.last_words()}"
    if last.record is None or last.record.final is None:
        return f"{again} ends at once and builds no optimizer"
    return None


def first_parting(killed: Killed, whole: Record) -> Parting | None:
    first, *restarts = killed.records
    steady = seeded(first, whole)
    for number, record in enumerate(restarts, 1):
        found = parting(number, record, whole, steady)
        if found is not None:
            return found
    return None
