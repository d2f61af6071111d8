"""`watch(...)`: the watcher joined to a report. The package cannot be called `watch` as well."""

import sys
from collections.abc import Callable

import torch

from gradkeeper.model import Finding
from gradkeeper.report.paint import paint_for
from gradkeeper.report.text import render_one
from gradkeeper.watcher.session import OnFinding, Watch, default_choice


def watch(
    *optimizers: torch.optim.Optimizer,
    model: torch.nn.Module | None = None,
    on_finding: OnFinding | None = None,
    norms: bool = False,
) -> Watch:
    """Watches these optimizers, or all that are used inside the block.

    `on_finding`: "warn" prints each finding once, "raise" raises FindingError at its line,
    "record" only keeps it. The default is what GRADKEEPER says, else "warn". `norms` measures the
    loss and each layer's gradient at every step, for the tape: it reads values, so it costs time.
    """
    choice = on_finding or default_choice()
    return Watch(optimizers, model=model, on_finding=choice, show=shower(), norms=norms)


def shower(color: str = "auto") -> Callable[[Finding], None]:
    """Shows a finding on standard error, where the user's own output does not mix with it."""

    def show(finding: Finding) -> None:
        shown = render_one(finding, paint=paint_for(sys.stderr, color))
        print(shown, file=sys.stderr, flush=True)

    return show
