"""Tapes that version 0.1.0 wrote are read, judged as they were then, and still written alike.

run.jsonl is of `gradkeeper run --tape`, over a script that clips scaled gradients, does not divide
its windows of two, and ends in a loop that never zeroes; engine.jsonl is of `Engine(tape=…)`.
"""

from pathlib import Path

import pytest

from gradkeeper.model import audit
from gradkeeper.model.tape import Tape, read_file
from gradkeeper.rules import ALL

FOLDER = Path(__file__).with_name("written_before")
TOLD = {"run": {("GK301", 14), ("GK201", 15), ("GK101", 22)}, "engine": set()}
"""By 0.1.0: rules and lines."""


@pytest.mark.parametrize("name", TOLD)
def test_a_tape_that_an_earlier_version_wrote_is_judged_as_it_was(name: str) -> None:
    events = list(read_file(FOLDER / f"{name}.jsonl"))

    assert {(found.rule, found.site.line) for found in audit(events, ALL)} == TOLD[name]


@pytest.mark.parametrize("name", TOLD)
def test_its_events_are_written_as_they_were(name: str, tmp_path: Path) -> None:
    written = FOLDER / f"{name}.jsonl"
    tape = Tape()
    for event in read_file(written):
        tape.record(event)

    tape.write(tmp_path / "again.jsonl")

    assert (tmp_path / "again.jsonl").read_text() == written.read_text()
