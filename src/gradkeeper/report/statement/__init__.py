"""The statement: a run's gradients told window by window, as one page that needs no network.

window_story      one window: what came in, what went out
from_tape         a tape read as windows
ranks             the books of several ranks as one
rank_differences  where ranks did not do the same
replicas          weights that ranks should hold alike
measures          losses and norms, where known
findings          what is wrong, with the source
contents          all windows, lanes and findings
page              all of it as HTML
"""

from collections.abc import Iterable

from gradkeeper.model import Event, Finding, Rule
from gradkeeper.report.statement.from_tape import read
from gradkeeper.report.statement.page import render

__all__ = ["statement"]


def statement(
    tape: Iterable[Event],
    rules: Iterable[Rule],
    findings: Iterable[Finding],
    *,
    title: str,
    how: str = "",
) -> str:
    """The page of a tape. `rules` say where on it the `findings` belong; `how` completes "the
    script ..." where it did not end well."""
    return render(read(tape, rules, findings), title, how)
