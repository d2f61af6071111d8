"""What `engine.export` costs: 400 MB of weights, beside what safetensors and DCP write themselves.

Usage: scripts/bench export [--rounds 9] [--megabytes 400] [--folder /somewhere]

Rounds are interleaved, in turning order. Ratios are medians over rounds, against safetensors' own
`save_model`, and for DCP against torch's own save; all are synced to the disk. These two run twice
per round: the second ratio (A/A) is what noise looks like. Ours puts a file in place only when it
is whole. With `--folder /dev/shm` the time of the disk is left out, and with it most of its noise.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_model

from bench.checkpoint import REST, WIDTH, by_dcp, sync, timed
from gradkeeper.engine import Engine

THEIRS = "safetensors save_model"
THEIRS_AGAIN = f"{THEIRS} (A/A)"
OURS = "engine.export"
DCP = "DCP"
DCP_AGAIN = f"{DCP} (A/A)"
OURS_DCP = 'engine.export, to="dcp"'
AGAINST = {THEIRS_AGAIN: THEIRS, OURS: THEIRS, DCP_AGAIN: DCP, OURS_DCP: DCP}
ORDER = (THEIRS, THEIRS_AGAIN, OURS, DCP, DCP_AGAIN, OURS_DCP)

Export = Callable[[Path], object]


def engine_of(megabytes: int) -> tuple[Engine, torch.nn.Module]:
    layers = max(1, round(megabytes * 1e6 / (4 * WIDTH * WIDTH)))
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers)))
    return Engine(model, torch.optim.SGD(model.parameters(), lr=0.1), progress=False), model


def contestants(megabytes: int) -> dict[str, Export]:
    engine, model = engine_of(megabytes)

    def by_safetensors(folder: Path) -> None:
        folder.mkdir()
        save_model(model, str(folder / "model.safetensors"))
        sync(folder / "model.safetensors")
        sync(folder)

    def by_torch(folder: Path) -> None:
        folder.mkdir()
        by_dcp(model.state_dict(), folder, 1)

    return {
        THEIRS: by_safetensors,
        OURS: engine.export,
        THEIRS_AGAIN: by_safetensors,
        DCP: by_torch,
        OURS_DCP: lambda folder: engine.export(folder, to="dcp"),
        DCP_AGAIN: by_torch,
    }


def rounds(ways: dict[str, Export], root: Path, count: int) -> list[dict[str, float]]:
    names = list(ways)
    found = []
    for turn in range(count + 1):
        times = {}
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            # Nobody pays for what the one before left behind.
            time.sleep(REST)
            os.sync()
            times[name] = timed(lambda way=ways[name]: way(root / "out"))  # type: ignore[misc]
            shutil.rmtree(root / "out")
        if turn:  # the first round warms up
            found.append(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--folder", type=Path, help="on the disk to measure (the temporary one)")
    args = parser.parse_args()
    print(f"{args.megabytes} MB, load {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        times = rounds(contestants(args.megabytes), Path(name), args.rounds)
    print("| export | seconds | ratio | of |")
    print("|---|---|---|---|")
    for way in sorted(times[0], key=ORDER.index):
        other = AGAINST.get(way, way)
        ratios = [one[way] / one[other] for one in times]
        seconds = statistics.median(one[way] for one in times)
        told = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {way} | {seconds:.2f} | {told} | {other} |")


if __name__ == "__main__":
    main()
