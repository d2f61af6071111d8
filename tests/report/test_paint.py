import io
from pathlib import Path

import pytest

from gradkeeper.model import Finding, Severity, Site
from gradkeeper.report import text
from gradkeeper.report.paint import PLAIN, Paint, paint_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def colours(stream: io.StringIO | None, choice: str = "auto", **environment: str) -> bool:
    return paint_for(stream, choice, environment) is not PLAIN


def test_colour_is_for_terminals() -> None:
    assert colours(Terminal())
    assert not colours(io.StringIO())
    assert not colours(None)
    assert not colours(Terminal(), TERM="dumb")


def test_the_environment_overrules_what_the_stream_is() -> None:
    assert not colours(Terminal(), NO_COLOR="1")
    assert colours(Terminal(), NO_COLOR="")
    assert colours(io.StringIO(), FORCE_COLOR="1")
    assert not colours(Terminal(), FORCE_COLOR="0")
    assert not colours(Terminal(), FORCE_COLOR="1", NO_COLOR="1")


def test_the_option_overrules_the_environment() -> None:
    assert colours(io.StringIO(), "always", NO_COLOR="1")
    assert not colours(Terminal(), "never", FORCE_COLOR="1")


def finding(path: Path, column: int) -> Finding:
    return Finding(
        rule="GK101",
        name="stale-gradient",
        severity=Severity.ERROR,
        site=Site(str(path), 1, column),
        message="spends it again",
        remedy="a remedy",
    )


def test_paint_changes_nothing_but_the_colour(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("    optimizer.step()\n")

    painted = text.render([finding(path, 5)], paint=Paint())

    assert "\x1b[1;31m^ spends it again\x1b[0m" in painted
    bare = painted
    for codes in ("0", "1", "2", "1;31"):
        bare = bare.replace(f"\x1b[{codes}m", "")
    assert bare == text.render([finding(path, 5)])


@pytest.mark.parametrize(
    ("line", "column", "below"),
    [("\toptimizer.step()", 2, "\t^"), ("f('勾配'); g()", 10, " " * 11 + "^")],
    ids=["tab", "wide letters"],
)
def test_the_marker_stands_below_its_column(
    line: str, column: int, below: str, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(line)

    assert f"      | {below} spends" in text.render_one(finding(path, column))


def test_source_does_not_command_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("f('\x1b[2J')\n")

    assert "\x1b" not in text.render_one(finding(path, 1))


def test_quiet_leaves_out_all_but_the_findings(tmp_path: Path) -> None:
    one = finding(tmp_path / "gone.py", 1)

    assert text.render([one], quiet=True) == text.render_one(one)
    assert text.render([], quiet=True) == ""
