"""`gradkeeper demo`: three bugs found and mended, a training killed and resumed, a statement.

It checks itself: whatever does not go as it should ends it with exit code 1.

scripts   the scripts that it works on, as a user would have written them
stage     words for the audience, commands shown with their output, expectations
training  the character model's process, followed line by line and killed at one of them
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from gradkeeper.cli.demo.scripts import BUGS, CHARACTERS, THREE_BUGS
from gradkeeper.cli.demo.stage import (
    UnexpectedError,
    called,
    expect,
    gradkeeper,
    plain,
    say,
    title,
)
from gradkeeper.cli.errors import CliError
from gradkeeper.extras import INSTALL_TORCH

NAME = "demo"
HELP = "find and mend three bugs, kill and resume a training, write a statement: two minutes"
FOLDER = Path("gradkeeper-demo")
PAGE = "statement.html"
TAPE = "three_bugs.tape"
NEEDED = ("torch", "numpy", "tqdm")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help=f"the folder for the statement page ({FOLDER}); nothing else is left behind",
    )


def run(args: argparse.Namespace) -> int:
    missing = [name for name in NEEDED if find_spec(name) is None]
    try:
        with tempfile.TemporaryDirectory(prefix="gradkeeper-demo-") as name:
            if missing:
                check_and_mend(Path(name))
                say(f"Parts 2 to 4 need {', '.join(missing)}: {INSTALL_TORCH}")
                return 0
            with _place_for_page(args.output) as page:
                play(Path(name), page)
    except UnexpectedError as error:
        print(f"gradkeeper demo: did not go as it should: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gradkeeper demo: stopped", file=sys.stderr)
        return 130
    say("", "All four parts ended as they should.")
    return 0


def play(folder: Path, page: Path) -> None:
    check_and_mend(folder)
    watch(folder)
    kill_and_resume(folder)
    write_statement(folder, page)


def check_and_mend(folder: Path) -> None:
    title("1/4  A script that runs to its end without a word, and is wrong in three places")
    (folder / "three_bugs.py").write_text(THREE_BUGS)
    (folder / "mended.py").write_text(THREE_BUGS)
    say(*(f"{number:4} | {line}" for number, line in enumerate(THREE_BUGS.splitlines(), 1)), "")
    output = gradkeeper(folder, "check", "three_bugs.py", code=1, remark="without running it")
    _expect_the_bugs(output)
    gradkeeper(folder, "check", "--diff", "three_bugs.py", code=1, remark="what --fix would do")
    gradkeeper(folder, "check", "--fix", "mended.py", code=0, remark="a copy of it")


def watch(folder: Path) -> None:
    title("2/4  The same script, and the mended copy, while they run")
    words = ("run", "--norms", "--tape", TAPE, "three_bugs.py")
    _expect_the_bugs(gradkeeper(folder, *words, code=1))
    gradkeeper(folder, "run", "mended.py", code=0, remark="see the losses too")


def kill_and_resume(folder: Path) -> None:
    from gradkeeper.cli.demo.training import killed, trained

    title("3/4  A character model, killed in the middle of a window and resumed")
    script = folder / "characters.py"
    script.write_text(CHARACTERS)
    say("$ python characters.py whole          # 8 micro-batches a step, to the end")
    whole = trained(script, "whole")
    say("", "$ python characters.py killed         # the same, with kill -9 on the way")
    dead = killed(script, "killed", steps=whole.steps // 2, pending=5)
    say(f"   killed (signal 9) after step {dead.steps} and {dead.pending} micro-batches")
    expect_open_window(folder)
    say("$ python characters.py killed         # again: it goes on from there")
    again = trained(script, "killed")
    expect(again.resumed is not None, "the killed training started from the beginning")
    say("", f"   weights, uninterrupted:       sha256 {whole.digest}")
    say(f"   weights, killed and resumed:  sha256 {again.digest}")
    expect(whole.digest == again.digest, "the weights of the two trainings differ")
    say("   equal, bit for bit")


def expect_open_window(folder: Path) -> None:
    newest = (folder / "killed" / "latest").read_text().strip()
    output, _ = called(folder, "checkpoint", "show", f"killed/{newest}")
    held = re.search(r"window: (open, 3 of 8 .*)", plain(output))
    expect(held is not None, f"the last checkpoint holds no open window:\n{output}")
    say(f"   its last checkpoint, {newest}: window {held and held[1]}", "")


def write_statement(folder: Path, page: Path) -> None:
    title("4/4  What happened to every gradient of the script with three bugs")
    say(f"$ gradkeeper replay --report {page} {TAPE}")
    output, code = called(folder, "replay", "--report", str(page.resolve()), TAPE)
    expect(code == 1, f"`gradkeeper replay` ended with exit code {code}, not 1:\n{output}")
    _expect_the_bugs(output)
    expect(page.stat().st_size > 0, f"{page} is empty")
    say(f"   the statement is in {page}", f"   open {page.resolve().as_uri()}")


def _expect_the_bugs(output: str) -> None:
    """Each of them at its line, and nothing else."""
    found = re.findall(r"^three_bugs\.py:(\d+):\d+  (GK\d+)", plain(output), re.M)
    told = {rule: int(line) for line, rule in found}
    expect(told == BUGS, f"found {told}, and not {BUGS}")


@contextmanager
def _place_for_page(folder: Path) -> Iterator[Path]:
    """Known before the work begins, not after it; gone if nothing comes of it."""
    page = folder / PAGE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with page.open("a"):
            pass
    except OSError as error:
        why = f"{page} cannot be written: {error.strerror}"
        raise CliError(f"{why}; --output names another folder") from None
    try:
        yield page
    finally:
        if page.stat().st_size == 0:
            page.unlink()
            with suppress(OSError):  # not ours alone
                folder.rmdir()
