"""`watch(...)`: the watcher joined to a report. The package cannot be called `watch` as well."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from gradkeeper.model import Finding
from gradkeeper.report import html, text
from gradkeeper.report.paint import paint_for
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
    norms: bool = False,
) -> Watch:
    """Watches these optimizers, or all that are used inside the block.

    `on_finding`: "warn" prints each finding once, "raise" raises FindingError at its line,
    "record" only keeps it. The default is what GRADKEEPER says, else "warn".
    `check_finite` looks at every gradient that a step spends (GK305), not only at the clip norm,
    the scaler's check and now and then a step: it waits for the device at each step.
    `norms` measures the loss and each layer's gradient at every step, for the tape: it reads
    values, so it costs time.
    """
    _check(optimizers, model)
    return Watch(
        optimizers,
        model=model,
        on_finding=on_finding,
        check_finite=check_finite,
        norms=norms,
        show=shower(),
    )


def _check(optimizers: Iterable[object], model: object) -> None:
    for optimizer in optimizers:
        # Some libraries' optimizers are none of torch's, and look like them.
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                "watch() takes optimizers, watch(optimizer, model=model), or nothing to watch all "
                f"that are used inside the block; not {_kind(optimizer)}"
            )
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(f"watch(model=...) takes a torch.nn.Module, not {_kind(model)}")


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def shower(color: str = "auto") -> Callable[[Finding], None]:
    """Shows a finding on standard error, where the user's own output does not mix with it."""

    def show(finding: Finding) -> None:
        shown = text.render_one(finding, paint=paint_for(sys.stderr, color))
        print(shown, file=sys.stderr, flush=True)

    return show
