"""Who resumes exactly: each framework saved, killed, started anew, and compared with itself.

Usage: scripts/bench resume [--only NAME ...]

Three epochs of 20 shuffled micro-batches in windows of 4, with dropout and AdamW. Each loop runs to
the end; then it saves in the second epoch, at a step or two micro-batches after one, dies, and a
new process goes on by the framework's own means. The table holds the largest difference between
the weights of both, at the end. Frameworks come with the `peers` extra.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from torch import Tensor

from bench._engine_peers import quieten
from bench._resume_loops import LOOPS, PACKAGES, Loop
from bench._resume_problem import BOUNDARY, MID_WINDOW, Phase

COLUMNS = {"at a step": BOUNDARY, "in mid-window": MID_WINDOW}


def in_a_process(loop: Loop, phase: Phase, kept: Path) -> None:
    """Forked: imports are shared, and nothing else of what the other phases did."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            found = loop(phase)
            torch.save(found, kept)
            code = 0
        except SystemExit as request:
            code = int(request.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError(f"{'resuming' if phase.resume else 'running'} failed: {status}")


def weights(loop: Loop, phase: Phase, kept: Path) -> list[Tensor]:
    in_a_process(loop, phase, kept)
    found: list[Tensor] = torch.load(kept)
    return found


def outcome(loop: Loop, whole: list[Tensor], stop: int, folder: Path) -> str:
    """The largest difference, in words."""
    folder.mkdir()
    in_a_process(loop, Phase(folder, stop=stop), folder / "none.weights")
    resumed = weights(loop, Phase(folder, resume=True), folder / "resumed.weights")
    pairs = list(zip(whole, resumed, strict=True))
    if all(torch.equal(one, other) for one, other in pairs):
        return "**0**, bit for bit"
    return f"{max(float((one - other).abs().max()) for one, other in pairs):.2g}"


def measure(name: str) -> dict[str, str]:
    """One loop, in this process."""
    torch.set_num_threads(1)
    quieten()
    loop = LOOPS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "whole").mkdir()
        whole = weights(loop, Phase(folder / "whole"), folder / "whole.weights")
        return {
            column: outcome(loop, whole, stop, folder / f"{stop}")
            for column, stop in COLUMNS.items()
        }


def titled(name: str) -> str:
    """With the version of what its first word names."""
    if name not in PACKAGES:
        return name
    first, *rest = name.split(" ")
    return " ".join([first, importlib.metadata.version(PACKAGES[name]), *rest])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(LOOPS), default=list(LOOPS))
    parser.add_argument("--one", choices=list(LOOPS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    print(f"| saved, killed, resumed | {' | '.join(COLUMNS)} |")
    print("|---|" + "---|" * len(COLUMNS))
    for name in options.only:
        try:
            title = titled(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"not installed, left out: {name}", file=sys.stderr)
            continue
        command = [sys.executable, "-m", "bench.resume", "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"{name} failed:\n{done.stderr}")
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"| {title} | {' | '.join(found[column] for column in COLUMNS)} |", flush=True)


if __name__ == "__main__":
    main()
