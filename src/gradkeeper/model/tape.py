"""A tape: the events of one run, as JSON lines.

The first line says what it is and in which version; each further line is one event, without the
fields that hold their default. It can be read while it is written: a last line that is not
finished yet is left alone.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, get_args, get_origin, get_type_hints

from gradkeeper.model.events import KINDS, Event
from gradkeeper.model.site import Site

VERSION = 1
NAMES = {kind: name for name, kind in KINDS.items()}
REQUIRED = object()


class TapeError(ValueError):
    """A tape that cannot be read; says where and why."""


def _defaults(kind: type[Event]) -> dict[str, Any]:
    return {
        field.name: REQUIRED if field.default is MISSING else field.default
        for field in fields(kind)
        if field.name != "site"
    }


FIELDS = {kind: _defaults(kind) for kind in KINDS.values()}
TYPES = {kind: get_type_hints(kind) for kind in KINDS.values()}


def encode(event: Event) -> str:
    """One event as one line, without its line end."""
    record: dict[str, Any] = {"event": NAMES[type(event)], "at": event.site}
    for name, default in FIELDS[type(event)].items():
        value = getattr(event, name)
        if value != default:
            record[name] = value
    return json.dumps(record, ensure_ascii=False)


# A loop repeats itself, to the letter: of a million lines most were decoded before.
@lru_cache(maxsize=4096)
def decode(line: str) -> Event:
    """The event of one line; ValueError says what is wrong with it."""
    record = json.loads(line)
    name = record.pop("event", None) if isinstance(record, dict) else None
    if not isinstance(name, str) or name not in KINDS:
        raise ValueError(f"no event that is known here: {line.strip()[:60]}")
    kind = KINDS[name]
    site = _site(record.pop("at", None))
    facts = {field: _fact(kind, field, value) for field, value in record.items()}
    try:
        return kind(site=site, **facts)
    except TypeError:
        missing = [field for field, default in FIELDS[kind].items() if default is REQUIRED]
        raise ValueError(f"{name} needs {', '.join(missing)}") from None


def _fact(kind: type[Event], field: str, value: Any) -> Any:
    """The value of one field, out of JSON; ValueError says why it is none."""
    if field not in FIELDS[kind]:
        raise ValueError(f"{NAMES[kind]} has no field {field!r}")
    wanted = TYPES[kind][field]
    if wanted == tuple[Site, ...] and isinstance(value, list):
        return tuple(_site(element) for element in value)
    if not _fits(value, wanted):
        raise ValueError(f"{NAMES[kind]} cannot have {json.dumps(value)[:40]} as its {field}")
    return tuple(value) if isinstance(value, list) else value


def _fits(value: object, wanted: Any) -> bool:
    """Whether a value out of JSON has the type that a field asks for."""
    choices = get_args(wanted)
    if get_origin(wanted) is tuple:
        return isinstance(value, list) and all(_fits(element, choices[0]) for element in value)
    if get_origin(wanted) is Literal:
        return value in choices
    if choices:
        return any(_fits(value, choice) for choice in choices)
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, wanted)


def _site(value: object) -> Site:
    match value:
        case [str(file), int(line), int(column), str(function)]:
            return Site(file, line, column, function)
    raise ValueError("a place must be [file, line, column, function]")


def read(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a tape, one at a time; TapeError names the line that is damaged."""
    numbered = enumerate(lines, 1)
    _check_header(next(numbered, (1, ""))[1])
    for number, line in numbered:
        try:
            yield decode(line)
        except ValueError as error:
            if not line.endswith("\n"):
                return
            raise TapeError(f"line {number} is damaged: {error}") from None


def _check_header(line: str) -> None:
    try:
        header = json.loads(line)
        version = header["gradkeeper-tape"]
    except (ValueError, KeyError, TypeError):
        raise TapeError("not a tape: line 1 does not say that it is one of gradkeeper") from None
    if not isinstance(version, int) or version > VERSION:
        raise TapeError(
            f"the tape has version {version}, and this gradkeeper reads up to {VERSION}: update it"
        )


def opened(path: str | Path, mode: str) -> IO[str]:
    """A tape's file. Names of files may hold bytes that are no UTF-8: they pass as they are.

    Each line is written at once: a process that is killed leaves all that it had to tell.
    """
    return open(path, mode, 1, encoding="utf-8", errors="surrogateescape")


def read_file(path: str | Path) -> Iterator[Event]:
    with opened(path, "r") as lines:
        yield from read(lines)


class Tape:
    """Events kept in memory, written behind each other to a file, or both."""

    def __init__(self, stream: IO[str] | None = None, *, keep: bool = True) -> None:
        self.events: list[Event] = []
        self._append: Callable[[Event], None] = self.events.append if keep else _forget
        self._stream = stream
        if stream is not None:
            stream.write(json.dumps({"gradkeeper-tape": VERSION}) + "\n")

    def record(self, event: Event) -> None:
        self._append(event)
        if self._stream is not None:
            self._stream.write(encode(event) + "\n")

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def write(self, path: str | Path) -> None:
        with opened(path, "w") as stream:
            copy = Tape(stream, keep=False)
            for event in self.events:
                copy.record(event)


def _forget(_: Event) -> None:
    return
