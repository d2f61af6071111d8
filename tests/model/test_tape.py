import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradkeeper.model import Event, Site, Tape, TapeError
from gradkeeper.model.events import KINDS, Backward, Batch, Step
from gradkeeper.model.tape import VERSION, decode, encode, read, read_file

HERE = Site("train.py", 12, 5, "main")
names = st.text(min_size=1, max_size=8)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values for a field, by its annotation."""
    if kind is Site:
        return st.builds(Site, names, st.integers(1), st.integers(1), names)
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=3).map(tuple)
    if kind is str:
        return names
    if kind is float:
        return st.floats(allow_nan=False)
    if kind in (str, int, bool):
        return st.from_type(kind)
    if kind is type(None):
        return st.none()
    if isinstance(kind, str):
        return st.just(kind)
    return st.one_of([values_of(one) for one in get_args(kind)])


def any_event() -> st.SearchStrategy[Event]:
    builders = []
    for kind in KINDS.values():
        hints = get_type_hints(kind)
        facts = {field.name: values_of(hints[field.name]) for field in fields(kind)}
        builders.append(st.builds(kind, **facts))
    return st.one_of(builders)


def lines_of(tape: Tape, path: Path) -> list[str]:
    tape.write(path)
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.fixture
def two_events() -> Tape:
    tape = Tape()
    tape.record(Batch(site=HERE, source="loader"))
    tape.record(Step(site=HERE, optimizer="opt"))
    return tape


@given(any_event())
def test_every_event_comes_back_as_it_was_written(event: Event) -> None:
    assert decode(encode(event)) == event


def test_an_event_is_one_readable_line_without_its_defaults() -> None:
    event = Backward(site=HERE, accounts=("model",), multiplier=0.25)

    assert json.loads(encode(event)) == {
        "event": "backward",
        "at": ["train.py", 12, 5, "main"],
        "accounts": ["model"],
        "multiplier": 0.25,
    }


def test_a_tape_comes_back_from_its_file(two_events: Tape, tmp_path: Path) -> None:
    two_events.write(tmp_path / "run.tape")

    assert list(read_file(tmp_path / "run.tape")) == two_events.events


def test_a_tape_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with (tmp_path / "run.tape").open("w", encoding="utf-8") as stream:
        tape = Tape(stream, keep=False)
        tape.record(Step(site=HERE, optimizer="opt"))
        stream.flush()

        seen = list(read_file(tmp_path / "run.tape"))

        tape.record(Step(site=HERE, optimizer="opt"))
    assert len(seen) == 1
    assert len(list(read_file(tmp_path / "run.tape"))) == 2


def test_a_tape_that_is_not_kept_holds_nothing_in_memory() -> None:
    tape = Tape(io.StringIO(), keep=False)

    tape.record(Step(site=HERE, optimizer="opt"))

    assert len(tape) == 0


def test_an_unfinished_last_line_is_left_alone(two_events: Tape, tmp_path: Path) -> None:
    *whole, last = lines_of(two_events, tmp_path / "run.tape")

    for cut in range(len(last) - 1):
        events = list(read([*whole, last[:cut]]))

        assert events == two_events.events[:1]


def test_a_damaged_line_is_named_by_its_number(two_events: Tape, tmp_path: Path) -> None:
    header, first, last = lines_of(two_events, tmp_path / "run.tape")

    with pytest.raises(TapeError, match=r"^line 2 is damaged"):
        list(read([header, first[:20] + "\n", last]))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"event": "stepp", "at": ["t.py", 1, 1, "f"]}', "no event that is known here"),
        ('{"event": ["step"], "at": ["t.py", 1, 1, "f"]}', "no event that is known here"),
        ('{"event": "step", "at": ["t.py", 1, 1, "f"]}', "step needs optimizer"),
        ('{"event": "step", "at": ["t.py", 1, 1, "f"], "optimizer": "o", "x": 1}', "no field 'x'"),
        ('{"event": "step", "at": [1], "optimizer": "o"}', "a place must be"),
        ('{"event": "step", "optimizer": "o"}', "a place must be"),
        ('{"event": "step", "at": ["t.py", 1, 1, "f"], "optimizer": 3}', "optimizer"),
        ('{"event": "zero", "at": ["t.py", 1, 1, "f"], "accounts": "model"}', "accounts"),
        ('{"event": "zero", "at": ["t.py", 1, 1, "f"], "accounts": [1]}', "accounts"),
        ("[1, 2]", "no event that is known here"),
        ("", "Expecting value"),
    ],
)
def test_a_line_that_is_no_event_says_why(line: str, why: str) -> None:
    header = json.dumps({"gradkeeper-tape": VERSION}) + "\n"

    with pytest.raises(TapeError) as error:
        list(read([header, line + "\n"]))

    assert why in str(error.value)


def test_a_newer_version_is_refused_with_a_message() -> None:
    header = json.dumps({"gradkeeper-tape": VERSION + 1}) + "\n"

    with pytest.raises(TapeError, match=rf"version {VERSION + 1}, and this gradkeeper reads up to"):
        list(read([header]))


@pytest.mark.parametrize("header", ["", "hello\n", "{}\n", "[]\n", '{"gradkeeper-tape": "x"}\n'])
def test_a_file_that_is_no_tape_is_refused(header: str) -> None:
    with pytest.raises(TapeError):
        list(read([header] if header else []))
