"""The findings of all ranks, brought to rank 0 through the launcher's store."""

import json
import os
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from gradkeeper.model import Because, Finding, Severity, Site

PATIENCE = timedelta(seconds=30)
"""How long rank 0 waits for a rank, which may have crashed."""


def gather(findings: list[Finding]) -> list[Finding] | None:
    """What all ranks found, on rank 0; None on the others."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _store()
    if store is None:
        return findings if rank == 0 else None
    if rank:
        store.set(f"gradkeeper/{rank}", json.dumps([asdict(one) for one in findings]))
        return None
    everybody = list(findings)
    for other in range(1, size):
        try:
            store.wait([f"gradkeeper/{other}"], PATIENCE)
            records = json.loads(store.get(f"gradkeeper/{other}"))
        except Exception:  # the store has several kinds of timeout; what is here is reported
            continue
        everybody += [_finding(record) for record in records]
    return everybody


def _store() -> Any:
    """torchrun keeps a store alive beside the ranks; without it there is no common place."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    make: Any = vars(torch.distributed)["TCPStore"]
    return make(host, port, is_master=False, timeout=PATIENCE)


def _finding(record: dict[str, Any]) -> Finding:
    because = tuple(Because(Site(*one["site"]), one["note"]) for one in record["because"])
    changed = {
        "site": Site(*record["site"]),
        "severity": Severity(record["severity"]),
        "because": because,
        "fix": None,
    }
    return Finding(**{**record, **changed})
