"""How fast `gradkeeper check` is: on files that train, on a whole tree beside ruff, on one line.

    python bench/lint.py [FOLDER ...]

Without folders it takes the installed torch, which is large and trains in places. Each figure is
the best of three runs, since other work on the machine can only make them worse.
"""

import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gradkeeper.lint import check_source
from gradkeeper.lint.files import find
from gradkeeper.lint.runner import collect_rarely
from gradkeeper.lint.vocabulary import may_train
from gradkeeper.rules import ALL

ROUNDS = 3


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def run(*command: str) -> Callable[[], object]:
    return lambda: subprocess.run(command, capture_output=True, check=False)


def training_files(folders: list[str]) -> list[tuple[str, bytes]]:
    found = []
    for path in find(folders):
        raw = Path(path).read_bytes()
        if path.endswith(".py") and may_train(raw):
            found.append((path, raw))
    return found


def on_files_that_train(folders: list[str]) -> None:
    files = training_files(folders)
    lines = sum(raw.count(b"\n") for _, raw in files)
    collect_rarely()
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for path, raw in files:
            check_source(raw, path, ALL, fixes=False)
        seconds.append(time.process_time() - start)
    rate = lines / min(seconds)
    print(f"files that train: {len(files)}, {lines:,} lines, {rate:,.0f} lines a CPU second")


def on_a_tree(folders: list[str]) -> None:
    ours = best(run(sys.executable, "-m", "gradkeeper", "check", "--exit-zero", *folders))
    ruff = (sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "-q")
    theirs = best(run(*ruff, *folders))
    print(f"whole tree: gradkeeper {ours:.2f} s, ruff check {theirs:.2f} s")


def on_one_line() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "one.py")
        file.write_text("x = 1\n")
        ours = best(run(sys.executable, "-m", "gradkeeper", "check", str(file)))
    bare = best(run(sys.executable, "-c", "pass"))
    print(f"one line: {(ours - bare) * 1000:.0f} ms over bare Python's {bare * 1000:.0f} ms")


def main() -> None:
    folders = sys.argv[1:] or [str(Path(sysconfig.get_path("purelib"), "torch"))]
    on_one_line()
    on_files_that_train(folders)
    on_a_tree(folders)


if __name__ == "__main__":
    main()
