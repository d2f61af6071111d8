import io
import os
import re
import termios
from contextlib import suppress

import pytest

from gradkeeper.cli import main
from gradkeeper.cli.progress import CLEAR, LARGE, CheckProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def bar(stream: io.StringIO, total: int, *, wanted: bool = True, term: str = "xterm") -> str:
    with CheckProgress(total, stream, wanted=wanted, environment={"TERM": term}) as progress:
        assert [progress.one(number) for number in range(total)] == list(range(total))
    return stream.getvalue()


def test_many_files_show_a_bar_that_is_gone_at_the_end() -> None:
    shown = bar(Terminal(), LARGE)

    assert re.search(rf"checking \S+ 1/{LARGE} files", shown)
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown


def test_nobody_sees_a_bar_without_a_terminal_or_many_files_or_when_quiet() -> None:
    assert bar(io.StringIO(), LARGE) == ""
    assert bar(Terminal(), LARGE - 1) == ""
    assert bar(Terminal(), LARGE, wanted=False) == ""
    assert bar(Terminal(), LARGE, term="dumb") == ""


def on_terminal(columns: int) -> str:
    """What a terminal of that width is sent."""
    here, there = os.openpty()
    termios.tcsetwinsize(there, (24, columns))
    with open(there, "w", encoding="utf-8") as stream:
        with CheckProgress(LARGE, stream, environment={}) as progress:
            progress.one(None)
        sent = b""
        while not sent.endswith(CLEAR.encode()) or sent.count(CLEAR.encode()) < 2:
            sent += os.read(here, 1024)
    os.close(here)
    return sent.decode()


@pytest.mark.parametrize(
    ("columns", "shown"), [(60, f"░ 1/{LARGE} files"), (40, f"checking 1/{LARGE} files"), (9, "")]
)
def test_what_would_not_fit_on_the_line_is_left_out(columns: int, shown: str) -> None:
    _, line, rest = on_terminal(columns).split(CLEAR)

    assert line.endswith(shown)
    assert len(line) < columns
    assert rest == ""


def test_the_bar_goes_when_the_work_fails() -> None:
    stream = Terminal()

    with suppress(KeyboardInterrupt), CheckProgress(LARGE, stream, environment={}) as progress:
        raise KeyboardInterrupt(progress.one(None))

    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_terminal_of_ascii_gets_numbers_only() -> None:
    class Ascii(Terminal):
        def write(self, text: str) -> int:
            text.encode("ascii")
            return super().write(text)

    assert f"checking 1/{LARGE} files" in bar(Ascii(), LARGE)


def test_quiet_check_of_clean_code_says_nothing(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    with open("clean.py", "w") as stream:
        stream.write("x = 1\n")

    assert main(["check", "--quiet", "clean.py"]) == 0

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
