"""The model: what the books hold, and how they are kept. Standard library only; read it first.

In the order in which to read them:

events        what can happen to a gradient
site          where in the user's code
account       a cohort of gradients that have always moved together
credit        what one backward produced, and its fate
optimizer     who spends, and scalers and schedulers beside them
window        what one step spends together
entry         one event with the books before and after
ledger        posts events, gives entries
posting       what each kind of event does to the books
books         the state that the ledger keeps
spending      what a step spends: from whom, how often before
repeating     rounds that were counted, not written down
rule          looks at entries
finding       what a rule says, and how one fault's findings fold into one
auditing      the way through: events to ledgers, entries to rules
tape          events as JSON lines
fast_replace  how frozen values are made, without the cost of dataclasses' own way

A part is imported when it is first asked for: a file that trains nothing needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradkeeper.model.auditing import Auditor, audit
    from gradkeeper.model.entry import Entry
    from gradkeeper.model.events import Event
    from gradkeeper.model.finding import Because, Finding, Findings, Severity
    from gradkeeper.model.ledger import Ledger
    from gradkeeper.model.rule import Rule
    from gradkeeper.model.site import Site
    from gradkeeper.model.tape import Tape, TapeError

__all__ = [
    "Auditor",
    "Because",
    "Entry",
    "Event",
    "Finding",
    "Findings",
    "Ledger",
    "Rule",
    "Severity",
    "Site",
    "Tape",
    "TapeError",
    "audit",
]

_HOMES = {
    "Auditor": "auditing",
    "Because": "finding",
    "Entry": "entry",
    "Event": "events",
    "Finding": "finding",
    "Findings": "finding",
    "Ledger": "ledger",
    "Rule": "rule",
    "Severity": "finding",
    "Site": "site",
    "Tape": "tape",
    "TapeError": "tape",
    "audit": "auditing",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"gradkeeper.model has no {name!r}")
    found = globals()[name] = getattr(import_module(f"gradkeeper.model.{home}"), name)
    return found
