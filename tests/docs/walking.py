"""Walks through the package: which of its files a finding, an update or a save passes, in order.

python -m tests.docs.walking FOLDER    prints, as JSON, the files of each walk
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import gradkeeper

PACKAGE = os.path.join(os.path.dirname(gradkeeper.__file__), "")
FAULTY = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""


@contextmanager
def walked() -> Iterator[list[str]]:
    """The file of every call into the package, in order; filled when the block is left."""
    calls: list[str] = []
    files: list[str] = []

    def called(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # What is run by an import is the same wherever one walks.
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            calls.append(code.co_filename)

    sys.setprofile(called)
    try:
        yield files
    finally:
        sys.setprofile(None)
        files += [os.path.relpath(path, PACKAGE) for path, _ in groupby(calls)]


def a_source_line_to_a_finding(folder: Path) -> list[str]:
    from gradkeeper.cli import main

    (folder / "train.py").write_text(FAULTY)
    with walked() as files:
        main(["check", str(folder / "train.py")])
    return files


def a_backward_to_a_finding(folder: Path) -> list[str]:
    from gradkeeper.cli import main

    (folder / "train.py").write_text(FAULTY)
    with walked() as files:
        main(["run", "--exit-zero", str(folder / "train.py")])
    return files


def a_micro_batch_to_the_weights(folder: Path) -> list[str]:
    engine, model, loader = training()
    with walked() as files:
        train(engine, model, loader)
    return files


def a_save_and_a_resume(folder: Path) -> list[str]:
    with walked() as files:
        engine, model, loader = training(checkpoint=folder / "run")
        train(engine, model, loader, at_first=engine.save)
        engine, model, loader = training(checkpoint=folder / "run")
        assert engine.resume()
        train(engine, model, loader)
    return files


def training(**options: Any) -> tuple[Any, Any, Any]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from gradkeeper import Engine

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(24, 4)), batch_size=4, shuffle=True)
    return Engine(model, optimizer, clip_norm=1.0, progress=False, **options), model, loader


def train(engine: Any, model: Any, loader: Any, at_first: Callable[[], object] = int) -> None:
    for number, window in enumerate(engine.windows(loader, size=3)):
        with window:
            for (x,) in window:
                window.backward(model(x).square().mean())
                if number == 0:
                    at_first()


WALKS = {
    "a source line to a finding": a_source_line_to_a_finding,
    "a backward to a finding": a_backward_to_a_finding,
    "a micro-batch to the weights": a_micro_batch_to_the_weights,
    "a save and a resume": a_save_and_a_resume,
}
"""By their headings in docs/guide/inside.md."""


def main(folder: Path) -> None:
    found = {}
    for name, walk in WALKS.items():
        place = folder / walk.__name__
        place.mkdir()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found[name] = walk(place)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
