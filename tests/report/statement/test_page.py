"""The page itself, as far as it can be told without a browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gradkeeper.model import Event, Findings, audit
from gradkeeper.model import events as ev
from gradkeeper.report.statement import statement
from gradkeeper.rules import ALL
from tests.report.statement.telling import adopted, at, window

NASTY = "</script><script>alert(1)</script>\u2028<img src=x onerror=alert(2)> $verdict & \"'"


class Reader(HTMLParser):
    """Elements, their text, and where the page would reach out to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, text: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1] += text
        self.text += text


def page(tape: list[Event], title: str = "train.py") -> Reader:
    return Reader(statement(tape, ALL, Findings(audit(tape, ALL)), title=title))


def test_books_that_balance_say_so_first() -> None:
    read = page([adopted(), *window(), *window()])

    assert "The books balance" in read.text
    assert "2 backward calls and 2 steps of 1 optimizer." in read.text


@pytest.mark.parametrize(
    ("windows", "said"), [(2, "1 finding"), (1, "The books balance"), (0, "No training was seen")]
)
def test_findings_are_counted_in_the_headline(windows: int, said: str) -> None:
    read = page([adopted(), *(window(zeroed=False) * windows)])

    assert read.text.count(said) >= 1


def test_a_finding_shows_its_lines_with_what_happens_there(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join(f"line_{number}()" for number in range(1, 12)))

    read = page([adopted(), *(window(zeroed=False, file=str(script)) * 2)])

    assert "line_6()" in read.text
    assert "step() applies the gradient of line 6 a second time" in read.text
    assert "line_11()" not in read.text


def test_source_that_is_gone_is_said_to_be() -> None:
    read = page([adopted(), *(window(zeroed=False) * 2)])

    assert "The source of train.py could not be read when this page was written." in read.text


def test_what_the_user_supplies_is_text_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("\n".join([f"f({NASTY!r})".replace("\\u2028", "\u2028")] * 20))
    odd = ev.Adopt(site=at(1), optimizer=NASTY, accounts=("other",))
    spends: list[Event] = [
        ev.Backward(site=at(5), accounts=("other",)),
        ev.Step(site=at(6), optimizer=NASTY),
    ]
    plain = page([adopted(), *(window(zeroed=False) * 2)])

    read = page([adopted(), odd, *spends, *(window(zeroed=False, file=str(script)) * 2)], NASTY)

    assert read.tags.count("script") == plain.tags.count("script") == 2
    assert "img" not in read.tags
    assert json.loads(read.scripts[0])["lanes"][0]["name"] == NASTY
    assert not re.search("[<>&\u2028\u2029]", read.scripts[0])


def test_the_page_reaches_out_to_nothing() -> None:
    read = page([adopted(), *(window(zeroed=False) * 2)])

    assert [link for link in read.links if not link.startswith(("#", "data:"))] == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", "".join(read.scripts) + read.text)


def test_the_books_of_one_rank_say_whose_they_are() -> None:
    read = page([replace(event, rank=0) for event in [adopted(), *window()]])

    assert "1 step of 1 optimizer, as rank 0 kept its books" in read.text


def test_an_empty_tape_makes_a_page_that_says_so() -> None:
    assert "No backward call and no step was seen." in page([]).text


def test_twenty_thousand_windows_make_a_small_page() -> None:
    sizes = [1 + number * 7 % 4 for number in range(20_000)]
    tape: list[Event] = [adopted()]
    for size in sizes:
        tape += window(size)

    whole = statement(tape, ALL, [], title="long.py")

    data = json.loads(Reader(whole).scripts[0])
    assert sum(len(shapes) * times for shapes, times in data["runs"]) == 20_000
    assert len(whole) < 200_000
