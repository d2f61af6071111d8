"""Tapes to make statements of, and what such a statement says."""

from gradkeeper.model import Event, Findings, Site, audit
from gradkeeper.model import events as ev
from gradkeeper.report.statement import contents
from gradkeeper.report.statement.contents import Statement
from gradkeeper.report.statement.from_tape import read
from gradkeeper.report.statement.window_story import Shape
from gradkeeper.rules import ALL


def at(line: int, file: str = "train.py") -> Site:
    return Site(file, line, 5, "main")


def adopted(optimizer: str = "optimizer", *accounts: str, file: str = "train.py") -> Event:
    return ev.Adopt(site=at(2, file), optimizer=optimizer, accounts=accounts or ("model",))


def window(size: int = 1, *, zeroed: bool = True, file: str = "train.py") -> list[Event]:
    """Zero, some backwards, a step."""
    events: list[Event] = []
    for _ in range(size):
        events.append(ev.Batch(site=at(3, file)))
        if zeroed and not any(isinstance(one, ev.Zero) for one in events):
            events.append(ev.Zero(site=at(4, file), accounts=("model",)))
        events.append(ev.Backward(site=at(6, file), accounts=("model",)))
    return [*events, ev.Step(site=at(7, file), optimizer="optimizer")]


def told(tape: list[Event]) -> Statement:
    return read(tape, ALL, Findings(audit(tape, ALL)))


def unfolded(statement: Statement) -> list[Shape]:
    """Every window, repetitions written out."""
    shapes = []
    for stories, times in map(contents.unfolded, statement.passages):
        for story in stories * times:
            assert story.shape is not None
            shapes.append(statement.shapes[story.shape])
    return shapes
