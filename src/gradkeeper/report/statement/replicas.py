"""Weights that ranks should hold alike, as HTML: after which steps they did, and since when not."""

from html import escape

from gradkeeper.model.events import Replicas
from gradkeeper.model.site import variable
from gradkeeper.report.statement.whole import Statement, ranks_in_words


def render(statement: Statement) -> str:
    """A table for each optimizer; empty if nobody differed."""
    parted = {one.optimizer for one in statement.replicas if one.parameter}
    return "".join(
        _table(name, [one for one in statement.replicas if one.optimizer == name])
        for name in dict.fromkeys(one.optimizer for one in statement.replicas)
        if name in parted
    )


def _table(optimizer: str, compared: list[Replicas]) -> str:
    rows = "".join(_row(one) for one in compared)
    return (
        f'<table class="replicas"><caption><code>{escape(variable(optimizer))}</code></caption>'
        '<thead><tr><th scope="col">after step</th><th scope="col">weights</th>'
        '<th scope="col">differs</th><th scope="col">first parameter</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(one: Replicas) -> str:
    if not one.parameter:
        same = f"equal on all {one.world} ranks"
        return f'<tr><th scope="row">{one.step:,}</th><td>{same}</td><td></td><td></td></tr>'
    return (
        f'<tr class="odd"><th scope="row">{one.step:,}</th><td>not equal</td>'
        f"<td>{escape(ranks_in_words(one.differing))}</td>"
        f"<td><code>{escape(one.parameter)}</code></td></tr>"
    )
