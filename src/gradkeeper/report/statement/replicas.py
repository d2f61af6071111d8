"""Weights that ranks should hold alike, as HTML: after which steps they did, and since when not."""

from html import escape

from gradkeeper.model.events import Replicas
from gradkeeper.model.site import variable
from gradkeeper.report.statement.contents import Statement, ranks_in_words


def render(statement: Statement) -> str:
    """A table for each optimizer; empty if nobody differed."""
    parted = {replica.optimizer for replica in statement.replicas if replica.parameter}
    return "".join(
        _table(name, [replica for replica in statement.replicas if replica.optimizer == name])
        for name in dict.fromkeys(replica.optimizer for replica in statement.replicas)
        if name in parted
    )


def _table(optimizer: str, compared: list[Replicas]) -> str:
    rows = "".join(_row(comparison) for comparison in compared)
    return (
        f'<table class="replicas"><caption><code>{escape(variable(optimizer))}</code></caption>'
        '<thead><tr><th scope="col">after step</th><th scope="col">weights</th>'
        '<th scope="col">differs</th><th scope="col">first parameter</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(replicas: Replicas) -> str:
    if not replicas.parameter:
        same = f"equal on all {replicas.world} ranks"
        return f'<tr><th scope="row">{replicas.step:,}</th><td>{same}</td><td></td><td></td></tr>'
    return (
        f'<tr class="odd"><th scope="row">{replicas.step:,}</th><td>not equal</td>'
        f"<td>{escape(ranks_in_words(replicas.differing))}</td>"
        f"<td><code>{escape(replicas.parameter)}</code></td></tr>"
    )
