"""What a checkpoint costs: 400 MB of model and Adam state, durable, beside other ways to write it.

Usage: scripts/bench checkpoint [--rounds 9] [--megabytes 400] [--folder /somewhere]

Rounds are interleaved: in each one everybody saves once, in turning order, so that a slow minute
of the machine is everybody's. Ratios are medians over rounds, against a raw write of the same
memory (one file, synced, and its folder). That write runs twice per round: the second ratio (A/A)
is what noise looks like. Ours also takes checksums, and puts an old checkpoint aside; deleting that
runs behind and is not in the figure (0.12 s for 400 MB; nobody else deletes within theirs either).
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from gradkeeper.checkpoint import Store, WriteBehind

RAW = "raw write"
OURS = "Store.save"
WIDTH = 1024
FLOOR = 1.15
STALL = 1.1
REST = 0.3

State = dict[str, Any]
Save = Callable[[], None]


def state_of(megabytes: int) -> State:
    """A stack of linear layers after one step of Adam."""
    layers = max(1, round(megabytes * 1e6 / (3 * 4 * WIDTH * WIDTH)))
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers)))
    optimizer = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for one in inside for tensor in tensors_of(one)]


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def raw(state: State, folder: Path) -> None:
    with open(folder / "raw", "wb", buffering=0) as stream:
        for tensor in tensors_of(state):
            stream.write(tensor.reshape(-1).numpy().data.cast("B"))
        os.fsync(stream.fileno())
    sync(folder)


def by_torch(state: State, folder: Path) -> None:
    torch.save(state, folder / "state.pt")
    sync(folder / "state.pt")
    sync(folder)


def by_dcp(state: State, folder: Path, threads: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = FileSystemWriter(folder, thread_count=threads, sync_files=True)
        dcp_save(state, storage_writer=writer, no_dist=True)


def contestants(state: State, root: Path) -> dict[str, Save]:
    store = Store(root / "ours", keep=2)
    one = {"w": torch.ones(1)}
    for _ in range(2):
        store.save(one)

    def fresh(save: Callable[[Path], None]) -> Save:
        def run() -> None:
            folder = root / "one"
            folder.mkdir()
            save(folder)

        return run

    return {
        RAW: fresh(lambda folder: raw(state, folder)),
        OURS: lambda: _ignored(store.save(state)),
        f"{RAW} (A/A)": fresh(lambda folder: raw(state, folder)),
        "torch.save": fresh(lambda folder: by_torch(state, folder)),
        "DCP": fresh(lambda folder: by_dcp(state, folder, 1)),
        "DCP, 2 threads": fresh(lambda folder: by_dcp(state, folder, 2)),
    }


def _ignored(_: object) -> None:
    return None


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def rounds(state: State, root: Path, count: int) -> list[dict[str, float]]:
    ways = contestants(state, root)
    names = list(ways)
    found = []
    for turn in range(count + 1):
        times = {}
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            # Nobody pays for what the one before left behind.
            time.sleep(REST)
            os.sync()
            times[name] = timed(ways[name])
            shutil.rmtree(root / "one", ignore_errors=True)
        if turn:  # the first round warms up
            found.append(times)
    return found


def stall(state: State, root: Path) -> dict[str, float]:
    """How long one copy takes, in memory never touched before and in memory used again."""
    tensors = tensors_of(state)
    memory: list[torch.Tensor] = []
    time.sleep(REST)
    times = {"copy, fresh memory": timed(lambda: memory.append(copied(tensors)))}
    times["copy, used memory"] = timed(lambda: copied(tensors, memory[0]))
    memory.clear()
    with WriteBehind(Store(root / "behind", keep=2)) as writer:
        times["first save"] = timed(lambda: writer.save(state))
        writer.wait()
        time.sleep(REST)
        times["later saves"] = timed(lambda: writer.save(state))
    return times


def copied(tensors: list[torch.Tensor], memory: torch.Tensor | None = None) -> torch.Tensor:
    """One buffer, because malloc would hand out small ones of a former round again."""
    if memory is None:
        memory = torch.empty(sum(tensor.nbytes for tensor in tensors), dtype=torch.uint8)
    start = 0
    for tensor in tensors:
        part = memory[start : start + tensor.nbytes]
        part.copy_(tensor.detach().reshape(-1).view(torch.uint8))
        start += tensor.nbytes
    return memory


def verdict(value: float, most: float) -> str:
    return f"{value:5.2f}  (at most {most}: {'held' if value <= most else 'BROKEN'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--folder", type=Path, help="on the disk to measure (the temporary one)")
    args = parser.parse_args()
    state = state_of(args.megabytes)
    size = sum(tensor.nbytes for tensor in tensors_of(state))
    print(f"{size / 1e6:,.0f} MB, {len(tensors_of(state))} tensors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        root = Path(name)
        times = rounds(state, root, args.rounds)
        print(f"\ndurable save, against {RAW} (medians of {len(times)} interleaved rounds)")
        for way in times[0]:
            ratio = statistics.median(one[way] / one[RAW] for one in times)
            seconds = statistics.median(one[way] for one in times)
            told = verdict(ratio, FLOOR) if way == OURS else f"{ratio:5.2f}"
            print(f"  {way:16} {seconds:6.2f} s  {told}")
        waits = [stall(state, root) for _ in range(args.rounds)]
        print("\nsave behind: how long training waits, against one copy in fresh memory")
        fresh = "copy, fresh memory"
        for way in waits[0]:
            ratio = statistics.median(one[way] / one[fresh] for one in waits)
            seconds = statistics.median(one[way] for one in waits)
            told = verdict(ratio, STALL) if "save" in way else f"{ratio:5.2f}"
            print(f"  {way:18} {seconds:6.3f} s  {told}")


if __name__ == "__main__":
    main()
