"""How fast `gradkeeper check` is: on files that train, on a whole tree beside ruff, on one line.

    python bench/lint.py [FOLDER ...]

A row for each folder; without any, for the installed torch, which is large and trains in places.
Seconds are of processor time, all processes together, so that they say the same on a machine that
is shared. Each is the best of three rounds, since other work can only make them worse.
"""

import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gradkeeper.lint.check import check_source, collect_rarely
from gradkeeper.lint.files import find
from gradkeeper.lint.program import may_train
from gradkeeper.rules import ALL

ROUNDS = 3


def best(work: Callable[[], object]) -> float:
    """Of what other processes did."""
    seconds = []
    for _ in range(ROUNDS):
        start = _spent()
        work()
        seconds.append(_spent() - start)
    return min(seconds)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*command: str) -> Callable[[], object]:
    return lambda: subprocess.run(command, capture_output=True, check=False)


def training_files(folders: list[str]) -> list[tuple[str, bytes]]:
    found = []
    for path in find(folders):
        raw = Path(path).read_bytes()
        if path.endswith(".py") and may_train(raw):
            found.append((path, raw))
    return found


def on_files_that_train(folder: str) -> tuple[int, int, float]:
    """How many, their lines, and lines in a second of processor time."""
    files = training_files([folder])
    lines = sum(raw.count(b"\n") for _, raw in files)
    collect_rarely()
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for path, raw in files:
            check_source(raw, path, ALL, fixes=False)
        seconds.append(time.process_time() - start)
    return len(files), lines, lines / min(seconds)


def on_a_tree(folder: str) -> tuple[float, float]:
    """Seconds of ours and of ruff's."""
    ruff = (sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "-q")
    ours = best(run(sys.executable, "-m", "gradkeeper", "check", "--exit-zero", folder))
    return ours, best(run(*ruff, folder))


def on_one_line() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "one.py")
        file.write_text("x = 1\n")
        ours = best(run(sys.executable, "-m", "gradkeeper", "check", str(file)))
    bare = best(run(sys.executable, "-c", "pass"))
    over = (ours - bare) * 1000
    print(f"one line: {over:.0f} ms of CPU time over bare Python's {bare * 1000:.0f} ms")


def main() -> None:
    folders = sys.argv[1:] or [str(Path(sysconfig.get_path("purelib"), "torch"))]
    on_one_line()
    print("| tree | `gradkeeper check` | `ruff check` | files that train | lines a CPU second |")
    print("|---|---|---|---|---|", flush=True)
    for folder in folders:
        ours, ruff = on_a_tree(folder)
        files, lines, rate = on_files_that_train(folder)
        name = Path(folder).name
        train = f"{files}, {lines:,} lines"
        print(
            f"| {name} | {ours:.2f} CPU s | {ruff:.2f} CPU s | {train} | {rate:,.0f} |", flush=True
        )


if __name__ == "__main__":
    main()
