"""Runs Python blocks as scripts of their own: a JSON list of sources in, of what they printed out.

torch is imported once, before anything runs; each block is then a fork of that clean process. A
fresh interpreter for each would spend minutes on imports.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

PATIENCE = 120
"""Seconds for one block."""


class BlockError(Exception):
    """A block does not run to its end."""


def run(sources: list[str]) -> list[str]:
    """What each of these scripts prints. Raises if one of them fails."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        check=False,
    )
    if done.returncode:
        raise BlockError(f"a block of the documents fails:\n{done.stderr}")
    outputs: list[str] = json.loads(done.stdout)
    return outputs


def _run_one(source: str, folder: Path) -> str:
    (folder / "train.py").write_text(source)
    child = os.fork()
    if not child:
        _be_the_script(folder)
    if _status(child):
        raise BlockError(f"{(folder / 'stderr').read_text()}\nin this block:\n\n{source}")
    return (folder / "stdout").read_text()


def _status(child: int) -> int:
    """How it ended; whoever takes too long is ended, with all that it started."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _be_the_script(folder: Path) -> None:
    os.setsid()  # a group of its own
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    code = 0
    try:
        runpy.run_path("train.py", run_name="__main__")
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the parent's exit handlers are not this block's


def main() -> None:
    import torch  # noqa: F401  (for the forks)

    import gradkeeper.engine
    import gradkeeper.watching  # noqa: F401

    outputs, failures = [], []
    for source in json.load(sys.stdin):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outputs.append(_run_one(source, Path(folder)))
            except BlockError as error:
                failures.append(str(error))
    json.dump(outputs, sys.stdout)
    sys.exit("\n\n".join(failures) or 0)


if __name__ == "__main__":
    main()
