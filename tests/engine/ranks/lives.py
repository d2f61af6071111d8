"""Two ranks that read a pipeline of data_kinds.py, killed again and again until they end.

python -m tests.engine.ranks.lives FOLDER KIND...

Each rank is a fork of this process, in the environment that torchrun gives: what they import takes
longer than they train. In each life one rank kills itself after a few micro-steps, and the other is
killed for it. Prints for each kind how many lives it took, or -1 if not all that a rank computed is
what it computes in a single life; and how many items each rank has read.
"""

import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from gradkeeper.engine import EngineWarning
from tests.engine.ranks.pool import free_port
from tests.engine.resume.data_kinds import KINDS, train
from tests.engine.resume.killing import Doom, after_steps, nothing
from tests.engine.resume.programs import digest, seed

RANKS = 2
MOST_LIVES = 20
KILLED_AFTER = 5


def become(rank: int, port: int, kind: str, folder: Path, doom: Doom) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(RANKS),
        LOCAL_WORLD_SIZE=str(RANKS),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    seed()
    found = train(kind, folder, doom())
    dist.destroy_process_group()
    folder.with_name(f"{folder.name}-{rank}").write_text(json.dumps([digest(found), found[-1]]))


def forked(act: Callable[[], object]) -> int:
    """A process in a group of its own, with its workers."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgrp()
        # What other people's packages warn of is theirs.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", EngineWarning)
        act()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def life(kind: str, folder: Path, dies: int | None) -> bool:
    """Whether both came to their end; `dies`: the rank that does not."""
    # By one process: ranks would write one over the other.
    if not (folder / "data").exists():
        os.waitpid(forked(lambda: KINDS[kind].build(folder / "data")), 0)
    port = free_port()
    ranks: list[int] = []
    for rank in range(RANKS):
        doom: Doom = partial(partial, nothing)
        if rank == dies:
            doom = partial(after_steps, KILLED_AFTER)
        ranks.append(forked(partial(become, rank, port, kind, folder, doom)))
    codes: dict[int, int] = {}
    while len(codes) < RANKS:
        child, status = os.wait()
        codes[child] = os.waitstatus_to_exitcode(status)
        # As torchrun does: a rank alone would wait in vain.
        for other in ranks if codes[child] else [child]:
            with suppress(ProcessLookupError):
                os.killpg(other, signal.SIGKILL)
    died = dies is not None and codes[ranks[dies]] == -signal.SIGKILL
    if any(codes.values()) and not died:
        sys.exit(f"{kind}: a rank failed")
    return not died


def results(folder: Path) -> list[tuple[str, int]]:
    texts = [folder.with_name(f"{folder.name}-{rank}").read_text() for rank in range(RANKS)]
    return [tuple(json.loads(text)) for text in texts]


def chain(kind: str, folder: Path) -> tuple[int, list[int]]:
    (folder / "whole").mkdir(parents=True)
    life(kind, folder / "whole", None)
    expected = results(folder / "whole")
    for lives in range(1, MOST_LIVES):
        if life(kind, folder / "killed", lives % RANKS):
            equal = results(folder / "killed") == expected
            return lives if equal else -1, [items for _, items in expected]
    sys.exit(f"{kind}: it never came to its end")


def main() -> None:
    torch.set_num_threads(1)
    for kind in sys.argv[2:]:
        print(json.dumps(chain(kind, Path(sys.argv[1]) / kind)), flush=True)


if __name__ == "__main__":
    main()
