"""`watch(...)`: the watcher joined to a report. The package cannot be called `watch` as well."""

import sys
from typing import Any

import torch

from gradkeeper.model import Finding
from gradkeeper.report import html, text
from gradkeeper.watcher import session
from gradkeeper.watcher.session import OnFinding


class Watch(session.Watch):
    """A watch that a notebook shows as what it found."""

    def _repr_html_(self) -> str:
        return html.render(self.findings)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(text.render(self.findings).rstrip())


def watch(
    *optimizers: torch.optim.Optimizer,
    model: torch.nn.Module | None = None,
    on_finding: OnFinding | None = None,
    check_finite: bool = False,
) -> Watch:
    """Watches these optimizers, or all that are used inside the block.

    `on_finding`: "warn" prints each finding once, "raise" raises FindingError at its line,
    "record" only keeps it. The default is what GRADKEEPER says, else "warn".
    `check_finite` looks at every gradient that a step spends (GK305), not only at the clip norm,
    the scaler's check and now and then a step: it waits for the device at each step.
    """
    return Watch(
        optimizers,
        model=model,
        on_finding=on_finding,
        check_finite=check_finite,
        show=to_stderr,
    )


def to_stderr(finding: Finding) -> None:
    print(text.render_one(finding), file=sys.stderr, flush=True)
