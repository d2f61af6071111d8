"""What is found out in the end."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradkeeper.prove.diagnosis import Parting
from gradkeeper.prove.running import Point

if TYPE_CHECKING:
    from gradkeeper.prove.weights import Comparison


@dataclass(frozen=True)
class Kill:
    """Where a process was killed, and from which step the next one went on (None: not known)."""

    at: Point
    resumed: int | None


@dataclass(frozen=True)
class Proof:
    command: tuple[str, ...]
    seed: int
    asked: int
    steps: int
    backwards: int
    kills: tuple[Kill, ...]
    failure: str | None = None
    comparison: "Comparison | None" = None  # made only if the digests of the weights differ
    parting: Parting | None = None

    @property
    def exact(self) -> bool:
        same = self.comparison is None or not self.comparison.differences
        return self.failure is None and same

    @property
    def resumed(self) -> bool:
        """Whether any restart went on from a later step than the first."""
        return any(kill.resumed != 0 for kill in self.kills)


def after(point: Point) -> str:
    """A point in words."""
    step, micro = point
    if not micro:
        return f"after step {step}"
    return f"in step {step + 1}, after micro-step {micro}"
