"""What all ranks found and did, brought to rank 0 through the launcher's store, and compared.

Only at the end: a collective of ours in the middle of a job could hang it.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from itertools import islice
from typing import Any

from gradkeeper.model import Auditor, Because, Event, Finding, Severity, Site
from gradkeeper.rules import ALL
from gradkeeper.watcher.tally import Run, Tally, digests, read_runs

PATIENCE = timedelta(seconds=30)
"""How long rank 0 waits for a rank, which may have crashed."""
HURRY = timedelta(seconds=3)
"""The same after a signal, whose sender waits for nobody."""
MOST_TOLD = 1_000
"""Windows in which ranks part; they are one finding for each line."""


def gather(
    findings: list[Finding],
    runs: list[Run] | None,
    record: Callable[[Event], object],
    patience: timedelta = PATIENCE,
) -> list[Finding] | None:
    """What all ranks found, and where they parted, on rank 0; None on the others.

    `runs` is what this rank did, None if it did not end well; `record` takes events to the tape.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = store_of_launcher(patience)
    if store is None:
        return findings if rank == 0 else None
    if rank:
        mine = {"findings": [asdict(one) for one in findings], "runs": runs}
        store.set(f"gradkeeper/{rank}", json.dumps(mine))
        return None
    everybody, all_runs = list(findings), [runs]
    for other in range(1, size):
        told = _hear(store, other, patience)
        everybody += [_finding(one) for one in told.get("findings", ())]
        all_runs.append(told.get("runs"))
    return everybody + _compared(all_runs, record)


def _compared(runs: list[list[Any] | None], record: Callable[[Event], object]) -> list[Finding]:
    """Nothing where a rank did not end well: how far it came tells nothing of its decisions."""
    tallies: list[Tally] = [read_runs(one) for one in runs if one is not None]
    if len(tallies) < len(runs):
        return []
    auditor, found = Auditor(ALL), []
    for event in islice(digests(tallies), MOST_TOLD):
        record(event)
        found += auditor.post(event)
    return found


def _hear(store: Any, rank: int, patience: timedelta) -> dict[str, Any]:
    try:
        store.wait([f"gradkeeper/{rank}"], patience)
        told: dict[str, Any] = json.loads(store.get(f"gradkeeper/{rank}"))
    except Exception:  # the store has several kinds of timeout; what is here is reported
        return {}
    return told


def store_of_launcher(patience: timedelta = PATIENCE) -> Any:
    """torchrun keeps a store alive beside the ranks; without it there is no common place."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    make: Any = vars(torch.distributed)["TCPStore"]
    return make(host, port, is_master=False, timeout=patience)


def _finding(record: dict[str, Any]) -> Finding:
    because = tuple(Because(**{**one, "site": Site(*one["site"])}) for one in record["because"])
    changed = {
        "site": Site(*record["site"]),
        "severity": Severity(record["severity"]),
        "because": because,
        "fix": None,
    }
    return Finding(**{**record, **changed})
