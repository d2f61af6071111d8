"""TensorBoard: what the engine tells of each window as scalars, and findings as text.

    from gradkeeper.integrations.tensorboard import Scalars, add_findings

    engine = Engine(model, optimizer, log=Scalars(writer))

writes `train/loss`, `train/grad_norm`, `train/lr`, `train/weight` and `train/stepped` (1 or 0) by
step; with several owners `train/D/loss` and so on. The writer is a SummaryWriter, or whatever else
has `add_scalar`. `add_findings(writer, watched)` adds what a watch found, to be read beside them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradkeeper.report.text import render

if TYPE_CHECKING:
    from gradkeeper.watcher.session import Watch


class Scalars:
    """For `Engine(log=...)`."""

    def __init__(self, writer: Any, *, prefix: str = "train/") -> None:
        if not callable(getattr(writer, "add_scalar", None)):
            raise TypeError(f"Scalars takes a SummaryWriter, not {writer!r}")
        self._writer = writer
        self._prefix = prefix

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(self._prefix + name, value, step)


def add_findings(writer: Any, watch: "Watch", *, step: int = 0) -> None:
    """One text with all findings, and their number, at a step."""
    shown = render(watch.findings)
    indented = "".join(f"    {line}\n" for line in shown.splitlines())
    writer.add_text("gradkeeper/findings", indented, step)
    writer.add_scalar("gradkeeper/findings", len(watch.findings), step)
