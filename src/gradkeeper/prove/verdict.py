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
    anew: bool = False  # the next one did not go on at all


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
    left: tuple[str, ...] = ()  # files that it had written by the last kill, the newest first

    @property
    def exact(self) -> bool:
        return self.resumed and self.equal

    @property
    def equal(self) -> bool:
        """Whether both runs ended with the same weights. Those that start anew each time do too."""
        same = self.comparison is None or not self.comparison.differences
        return self.failure is None and same

    @property
    def resumed(self) -> bool:
        """Whether any restart went on from where another process had come to."""
        return any(not kill.anew for kill in self.kills)


def after(point: Point) -> str:
    """A point in words."""
    step, micro = point
    if not micro:
        return f"after step {step}"
    return f"in step {step + 1}, after micro-step {micro}"
