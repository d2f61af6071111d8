"""`gradkeeper run` under torchrun: every rank tells rank 0 what it found, and rank 0 writes."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gradkeeper.model import Finding, Findings

if TYPE_CHECKING:
    from gradkeeper.watcher.session import Watch


def number() -> int:
    """This process's rank."""
    return int(os.environ.get("RANK", "0"))


def _alone() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) == 1


def before_the_script() -> None:
    if number() and not _alone():
        from gradkeeper.watcher.ranks import tell_when_left

        tell_when_left()


def before_an_error() -> None:
    """Before rank 0 exits with one, which ends the others wherever they are."""
    if not _alone():
        from gradkeeper.watcher.ranks import wait_until_left

        wait_until_left()


def launched() -> bool:
    """Under torchrun, accelerate or the like: they take an exit code for the training's own, and
    may start it again."""
    return (
        "TORCHELASTIC_RUN_ID" in os.environ
        or {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= os.environ.keys()
        or any(name.startswith("ACCELERATE_") for name in os.environ)
    )


def findings_of_all(
    watch: "Watch", *, ended_well: bool, hurried: bool = False
) -> list[Finding] | None:
    """On the rank that writes; None on the others, which send theirs."""
    if _alone():
        return watch.findings
    from gradkeeper.watcher.ranks import HURRY, PATIENCE, RankNews, gather

    kept = RankNews(watch.runs if ended_well else None, watch.replicas)
    patience = HURRY if hurried else PATIENCE
    try:
        everybody = gather(watch.findings, kept, watch.tape.record, patience)
    except Exception:  # the launcher has ended, and its store with it
        everybody = None if number() else watch.findings
    return None if everybody is None else list(Findings(everybody))


def send(tape: Path) -> None:
    """This rank's tape, for the statement; before its findings."""
    from gradkeeper.watcher.ranks import send

    if not send(tape):
        print(f"gradkeeper: the statement leaves out rank {number()}: too long", file=sys.stderr)


def received(folder: Path) -> list[Path]:
    """The tapes of the other ranks, put into a folder."""
    if _alone():
        return []
    from gradkeeper.watcher.ranks import received

    return received(folder)
