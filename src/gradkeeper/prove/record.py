"""What a witness wrote about one process, read back."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BackwardRecord:
    """The state in which a backward was called; digests, None where there was nothing."""

    step: int
    micro: int
    weights: str
    optimizer: str
    gradients: str | None
    batch: str | None
    generators: dict[str, str]
    loss: str | None


@dataclass(frozen=True)
class StepRecord:
    """What a step left."""

    weights: str
    rates: tuple[float | None, ...]


@dataclass(frozen=True)
class ProcessRecord:
    """One process of the command, from its first optimizer on."""

    trainer: str
    began: str | None  # the digest of the weights before its first backward or step
    events: tuple[BackwardRecord | StepRecord, ...]
    killed: bool
    final: str | None  # the digest of all parameters when the script ended by itself

    @property
    def backwards(self) -> list[BackwardRecord]:
        return [event for event in self.events if isinstance(event, BackwardRecord)]

    @property
    def steps(self) -> list[StepRecord]:
        return [event for event in self.events if isinstance(event, StepRecord)]

    def points(self) -> list[tuple[int, int]]:
        """After each event: steps taken, and backward calls since the last one."""
        found, steps, micro = [], 0, 0
        for event in self.events:
            if isinstance(event, StepRecord):
                steps, micro = steps + 1, 0
            else:
                micro += 1
            found.append((steps, micro))
        return found


def read(path: Path) -> ProcessRecord:
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    events = tuple(_event(line) for line in lines if line["kind"] in ("backward", "step"))
    weights = {line["kind"]: line.get("weights") for line in lines}
    return ProcessRecord(
        trainer=lines[0]["trainer"],
        began=weights.get("began"),
        events=events,
        killed="killed" in weights,
        final=weights.get("end"),
    )


def _event(line: dict[str, Any]) -> BackwardRecord | StepRecord:
    facts = {name: value for name, value in line.items() if name != "kind"}
    if line["kind"] == "step":
        return StepRecord(facts["weights"], tuple(facts["rates"]))
    return BackwardRecord(**facts)
