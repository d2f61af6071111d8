"""Runs programs of `programs` again and again, each time killed, until they end.

python -m tests.engine.resume.killing FOLDER CASES(JSON: [[PROGRAM, OPTIONS, HOW, SEED], ...])

Every life is a fork of this process, which has torch imported: hundreds of kills take seconds.
HOW is one of
  steps:N     SIGKILL after the N-th hook of each life
  instants    SIGKILL after a random time
  writes      SIGKILL within a save, at a random call that makes bytes durable
  term        SIGTERM at a random time, and exit code 143
Prints for each how many lives it took, or -1 if not all that was computed is what one life
computes.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.engine.resume.programs import PROGRAMS, Program

MOST_LIVES = 2000
Doom = Callable[[], Callable[[], None]]
"""Made in each life: the hook that the program calls."""


def after_steps(count: int) -> Callable[[], None]:
    left = [count]

    def hook() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def within_a_save(calls: int) -> Callable[[], None]:
    """Dies in the midst of one of the calls by which a save becomes durable."""
    for name in ("fsync", "rename", "replace", "unlink", "write"):
        original = getattr(os, name)

        def dying(*args: Any, original: Callable[..., Any] = original, **options: Any) -> Any:
            nonlocal calls
            calls -= 1
            if not calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **options)

        setattr(os, name, dying)
    return nothing


def expect_warnings() -> None:
    warnings.filterwarnings("ignore", "layer '1' normalises each micro-batch by itself")
    warnings.filterwarnings("ignore", "'set_vital' is deprecated")  # torchdata, on torch 2.13


def nothing() -> None:
    pass


def live(program: Program, folder: Path, options: dict[str, object], doom: Doom, out: int) -> None:
    """In a fork, which it never leaves."""
    code = 1
    try:
        warnings.simplefilter("error")
        expect_warnings()
        digest = program(folder, doom(), options)
        os.write(out, digest.encode())
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def life(
    program: Program, folder: Path, options: dict[str, object], doom: Doom, after: float | None
) -> tuple[int, str]:
    """How it ended, and its digest."""
    reader, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setpgrp()
        live(program, folder, options, doom, out)
    os.close(out)
    if after is not None:
        time.sleep(after)
        number = signal.SIGTERM if options.get("gently") else signal.SIGKILL
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    # A worker whose parent is killed while it starts never notices (torch 2.13): not left behind.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.set_blocking(reader, False)
    try:
        digest = os.read(reader, 1000).decode()
    except BlockingIOError:
        digest = ""
    os.close(reader)
    return os.waitstatus_to_exitcode(status), digest


def chain(program: Program, folder: Path, options: dict[str, object], how: str, seed: int) -> int:
    """As many lives as it takes; -1 if the last one's digest is not that of a single life."""
    # Here, not in a fork: so that forks find imported what torch imports when it first trains.
    expected = program(folder / "expected", nothing, options)
    chance = random.Random(seed)
    kind, _, number = how.partition(":")
    allowed = (143, -signal.SIGTERM) if kind == "term" else (-signal.SIGKILL,)
    longest = 0.2
    for lives in range(1, MOST_LIVES):
        doom: Doom = partial(partial, nothing)
        after = None
        if kind == "steps":
            doom = partial(after_steps, int(number))
        elif kind == "writes":
            doom = partial(within_a_save, chance.randrange(1, 40))
        elif kind in ("instants", "term"):
            after = chance.uniform(0, longest)
            longest *= 1.02  # else a slow machine might never come to its first save
        gently = {"gently": kind == "term"}
        code, digest = life(program, folder / "killed", options | gently, doom, after)
        if code == 0:
            return lives if digest == expected else -1
        if code not in allowed:
            sys.exit(f"{program.__name__} {options} {how}: life {lives} ended with {code}")
    sys.exit(f"{program.__name__} {options} {how}: it never came to its end")


def main() -> None:
    torch.set_num_threads(1)
    expect_warnings()
    for number, (name, options, how, seed) in enumerate(json.loads(sys.argv[2])):
        lives = chain(PROGRAMS[name], Path(sys.argv[1]) / str(number), options, how, seed)
        print(json.dumps(lives), flush=True)


if __name__ == "__main__":
    main()
