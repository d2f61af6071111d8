"""Commands on the pages are commands: each is one that is there, with options that it knows.

What a page shows the output of is run, by its own tests (test_pages.py, test_readme.py). The others
name files, jobs and clusters of the reader's, and are only read.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import pages
from gradkeeper.cli import COMMANDS, build_parser

ROOT = pages.DOCS.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", pages.DOCS / "wild.md"]
FENCE = re.compile(r"^ *```sh\n(.*?)^ *```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
OURS = re.compile(rf"\bgradkeeper ((?:{'|'.join(COMMANDS)})\b[^`\n#]*)")
SCRIPT = re.compile(r"\bscripts/(\w+)(?: (?:--docs )?([a-z]\w*))?")


def commands(text: str) -> Iterator[str]:
    """What a page says in fences for a shell, and between words, of the command line."""
    said = [line for block in FENCE.findall(text) for line in block.splitlines()]
    for line in (*said, *SPAN.findall(re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S))):
        yield from (found.strip() for found in OURS.findall(line))


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def unknown(command: str) -> list[str]:
    """The options in a command that it does not have."""
    name, *words = command.split()
    parser = parsers(build_parser())[name]
    known = {option for action in parser._actions for option in action.option_strings}
    for inner in parsers(parser).values():
        known |= {option for action in inner._actions for option in action.option_strings}
    own: list[str] = []
    for word in words:
        script = word.endswith(".py") or own[-1:] == ["-m"]
        if word == "--" or (name == "run" and script):
            break  # the rest is for another program
        own.append(word)
    return [word for word in own if word.startswith("--") and word.split("=")[0] not in known]


@pytest.mark.parametrize("page", [*PAGES, *pages.hand_written()], ids=lambda page: page.stem)
def test_a_command_has_the_options_that_a_page_says(page: Path) -> None:
    wrong = {command: unknown(command) for command in commands(page.read_text())}

    assert {command: options for command, options in wrong.items() if options} == {}


@pytest.mark.parametrize("page", [*PAGES, *pages.hand_written()], ids=lambda page: page.stem)
def test_a_script_that_a_page_names_is_there(page: Path) -> None:
    for script, name in SCRIPT.findall(page.read_text()):
        assert (ROOT / "scripts" / script).is_file()
        if script == "bench" and name:
            assert (ROOT / "bench" / f"{name}.py").is_file()


def test_an_option_that_is_not_there_would_be_noticed() -> None:
    page = (
        "Say `gradkeeper check --frobnicate src/`:\n\n```sh\ngradkeeper run --tapes a train.py\n```"
    )

    assert [unknown(command) for command in commands(page)] == [["--tapes"], ["--frobnicate"]]
    assert unknown("run --tape a train.py --epochs 3") == []
    assert unknown("run -m my_package.train --epochs 3") == []


def test_commands_are_read_from_pages() -> None:
    assert len(list(commands((ROOT / "README.md").read_text()))) > 8
