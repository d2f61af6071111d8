"""One million events through tape, ledger and rules: how fast, and in how much memory.

The tape is a file, so reading and decoding it are part of the figure. Two shapes: a loop that is
right, and one that never zeroes, where every step is a finding.
"""

import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from gradkeeper.model import Event, Findings, Site, Tape, audit
from gradkeeper.model.events import (
    Adopt,
    Backward,
    Batch,
    Clip,
    Close,
    EpochBegin,
    Step,
    Tick,
    Zero,
)
from gradkeeper.model.tape import read_file
from gradkeeper.rules import ALL

EVENTS = 1_000_000
WARM = 10_000
SAMPLED = (0, 1, 2, 5, 10, 25, 50, 75, 99)
PARTS = ("encoder", "decoder")


def loop(events: int, *, zeroing: bool) -> Iterator[Event]:
    """Windows of four micro-batches over two accounts, clipped, with a scheduler."""
    at = {name: Site("train.py", line, 5, "main") for line, name in enumerate("efbzcst", 10)}
    yield Adopt(site=at["e"], optimizer="optimizer", accounts=PARTS)
    made = 1
    while made < events - 1:
        if made % 4000 < 13:
            yield EpochBegin(site=at["e"], source="loader")
            made += 1
        for _ in range(4):
            yield Batch(site=at["f"], source="loader")
            yield Backward(site=at["b"], accounts=PARTS, multiplier=0.25, reduction="mean")
        yield Clip(site=at["c"], accounts=PARTS, bound=1.0)
        yield Step(site=at["s"], optimizer="optimizer")
        yield Tick(site=at["t"], scheduler="scheduler", optimizer="optimizer")
        made += 11
        if zeroing:
            yield Zero(site=at["z"], accounts=PARTS)
            made += 1
    yield Close(site=at["e"])


def write(path: Path, *, zeroing: bool) -> int:
    with path.open("w", encoding="utf-8") as stream:
        tape = Tape(stream, keep=False)
        count = 0
        for event in loop(EVENTS, zeroing=zeroing):
            tape.record(event)
            count += 1
    return count


def speed(path: Path, count: int) -> str:
    start = time.process_time()
    findings = Findings(audit(read_file(path), ALL))
    seconds = time.process_time() - start
    return f"{count / seconds:9,.0f} events a second, {len(findings)} finding(s)"


def memory(path: Path) -> str:
    """Python's own memory, live objects only, after the warm-up and at the most later."""
    tracemalloc.start()
    folded = Findings()
    samples: list[int] = []

    def sampled() -> Iterator[Event]:
        for seen, event in enumerate(read_file(path)):
            yield event
            if seen % WARM == WARM - 1 and seen // WARM in SAMPLED:
                gc.collect()
                samples.append(tracemalloc.get_traced_memory()[0])

    for finding in audit(sampled(), ALL):
        folded.add(finding)
    tracemalloc.stop()
    first, most = samples[0] / 1024, max(samples) / 1024
    return f"{first:7,.1f} KiB after {WARM:,} events, {most:,.1f} KiB at the most later"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for name, zeroing in (("right", True), ("never zeroes", False)):
            path = Path(folder, "tape.jsonl")
            count = write(path, zeroing=zeroing)
            print(f"{name:<13} {count:,} events, {path.stat().st_size / 2**20:.0f} MiB")
            print(f"  speed   {speed(path, count)}")
            print(f"  memory  {memory(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
