"""The pages of the site: blocks run, outputs are what they print now, and no point is missing."""

import re
from pathlib import Path

import pytest

from docs import generate, pages
from docs.blocks import BlockError
from docs.drawings import story

CONSTRAINTS = pages.DOCS.parent / "constraints.txt"
INDEX = pages.DOCS / "learn" / "index.md"
ROW = re.compile(r"^\| (\d+) \| .+? \| \[.+?\]\((\S+?)#(\S+?)\) \|$", re.M)
POINTS = 32


def section(page: Path, anchor: str) -> str:
    """A heading with this anchor, and what stands below it."""
    found = re.search(
        rf"^## [^\n]+ {{ #{re.escape(anchor)} }}$.*?(?=^## |\Z)", page.read_text(), re.M | re.S
    )
    return found[0] if found else ""


def test_pages_say_what_their_blocks_print() -> None:
    """All at once, so that torch is imported once."""
    texts = {page: page.read_text() for page in pages.hand_written()}

    renewed = pages.renewed(list(texts.values()), generate.printed)

    wanted = zip(texts.items(), renewed, strict=True)
    stale = [page.name for (page, text), now in wanted if text != now]
    assert stale == [], "run scripts/docs"


def test_every_point_has_a_question_with_a_folded_answer() -> None:
    rows = ROW.findall(INDEX.read_text())

    assert [int(number) for number, _, _ in rows] == list(range(1, POINTS + 1))
    for number, page, anchor in rows:
        text = section(INDEX.parent / page, anchor)
        assert "\n??? question " in text, f"point {number} is not asked and answered"
        before, answer = text.split("\n??? question ", 1)
        assert "?" in before, f"point {number} is answered before it is asked"
        assert re.search(r"```text|--8<--", answer), f"point {number} shows no experiment"


def test_a_point_without_a_section_would_be_noticed() -> None:
    assert section(pages.DOCS / "learn" / "ledger.md", "nowhere") == ""


def test_a_stale_output_would_be_noticed() -> None:
    block = "```python\nprint(1 + 1)\n```\n\n"
    text = f"{block}??? question\n\n    <!-- output -->\n    ```text\n    3\n    ```\n"

    (renewed,) = pages.renewed([text], generate.printed)

    assert renewed == text.replace("    3\n", "    2\n")


def test_versions_are_those_that_are_pinned() -> None:
    text = "<!-- versions of: torch -->\n```text\ntorch 1.0\n```\n"

    (renewed,) = pages.renewed([text], generate.printed)

    assert f"torch=={renewed.splitlines()[2].split()[1]}" in CONSTRAINTS.read_text().splitlines()


def test_a_block_that_fails_is_named() -> None:
    with pytest.raises(BlockError, match="no such luck"):
        pages.renewed(["```python\nraise ValueError('no such luck')\n```\n"], generate.printed)


def test_a_block_that_is_only_read_does_not_run() -> None:
    assert pages.python_blocks("```py\nimport nothing_of_that_name\n```\n") == []


def test_a_picture_tells_what_the_calls_do() -> None:
    forgotten = story("", "backward step backward step")
    right = story("", "backward step zero backward step zero")

    assert "applies 1 + 2" in forgotten
    assert 'fault"' in forgotten
    assert "applies 2" in right
    assert 'fault"' not in right
