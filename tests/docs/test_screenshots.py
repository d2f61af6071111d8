"""The pictures in docs/images: all there, small, and the terminal's still true."""

import shutil
from pathlib import Path

from docs.screenshots import IMAGES, PICTURES, PRINTED, SCRIPTS, gradkeeper, terminal

MOST_BYTES = 180_000


def test_the_terminal_picture_shows_what_the_command_prints_now(tmp_path: Path) -> None:
    shutil.copy(SCRIPTS / "six_lines.py", tmp_path)

    drawn = terminal("gradkeeper check six_lines.py", gradkeeper(tmp_path, "check", "six_lines.py"))

    assert drawn == (IMAGES / "terminal.svg").read_text()


def test_every_picture_is_there_and_small() -> None:
    sizes = {name: (IMAGES / name).stat().st_size for name in [*PICTURES, PRINTED, "terminal.svg"]}

    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
