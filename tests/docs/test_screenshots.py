"""The pictures in docs/images: all there, small, and the editor's still true."""

import re

from docs.screenshots import (
    FIRST_OF_README,
    FIRST_PICTURE,
    IMAGES,
    PICTURES,
    PRINTED,
    ROOT,
    SCRIPTS,
    found_in,
)
from gradkeeper.lint import check_source
from gradkeeper.rules import ALL

MOST_BYTES = 180_000
DRAWN = ("neovim.svg", FIRST_PICTURE)


def test_every_picture_is_there_and_small() -> None:
    sizes = {name: (IMAGES / name).stat().st_size for name in [*PICTURES, PRINTED, *DRAWN]}

    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}


def test_the_picture_of_an_editor_shows_what_the_server_says() -> None:
    drawn = (IMAGES / "neovim.svg").read_text().replace("&#160;", " ")
    (found,) = check_source((SCRIPTS / "six_lines.py").read_text(), "train.py", ALL).findings

    assert "nvim train.py" in drawn
    assert found.message in re.sub(r"</?tspan[^>]*>", "", drawn)


def test_the_first_picture_of_readme_shows_what_the_linter_says() -> None:
    assert (IMAGES / FIRST_PICTURE).read_text() == found_in(ROOT / FIRST_OF_README)


def test_another_fault_would_be_another_picture() -> None:
    assert found_in(SCRIPTS / "six_lines.py") != found_in(ROOT / FIRST_OF_README)
