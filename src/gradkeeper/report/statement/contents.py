"""All that a statement tells, as plain values."""

from dataclasses import dataclass, field

from gradkeeper.model import Finding
from gradkeeper.model.events import Measure, Replicas
from gradkeeper.report.statement.window_story import Shape, Story


@dataclass(frozen=True)
class Lane:
    optimizer: str
    ranks: tuple[int, ...] = ()
    """Those whose windows it shows; none where there is one process only."""

    @property
    def where(self) -> str:
        return ranks_in_words(self.ranks)


def ranks_in_words(ranks: tuple[int, ...]) -> str:
    if len(ranks) < 2:
        return "".join(f"rank {rank}" for rank in ranks)
    first, *others, last = ranks
    if others and ranks == tuple(range(first, last + 1)):
        return f"ranks {first} to {last}"
    return f"ranks {', '.join(str(rank) for rank in (first, *others))} and {last}"


@dataclass
class Repeat:
    """These windows came so many times more."""

    stories: list[Story]
    times: int


Passage = Story | Repeat


def unfolded(passage: Passage) -> tuple[list[Story], int]:
    """The windows of a passage, and how often they came."""
    if isinstance(passage, Repeat):
        return passage.stories, passage.times
    return [passage], 1


@dataclass
class Statement:
    findings: list[Finding] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    measures: dict[int, list[Measure]] = field(default_factory=dict)
    """By lane."""
    replicas: list[Replicas] = field(default_factory=list)
    """In the order in which ranks were compared."""
    backwards: int = 0
