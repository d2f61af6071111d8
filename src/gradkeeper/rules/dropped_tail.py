"""The last, incomplete window of an epoch or of the training is never applied.

With windows of N batches, whatever is left over when the data ends has been computed and is then
zeroed or forgotten. Over many epochs with shuffling that is a small waste; in a single pass it
means that the last batches never counted.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(10, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()  # <-
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

To see it, count backward calls and steps: ten calls make two windows of four, and two are lost.

To fix it, close the last window after the loop, divided by what it holds.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.randn(10, 8, 4)
for window in batches.split(4):
    optimizer.zero_grad()
    for x in window:
        loss = model(x).square().mean() / len(window)
        loss.backward()
    optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close, Zero
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site, variable
from gradkeeper.model.window import batches_in

rule = Rule("GK203", "dropped-tail", Severity.WARNING, __doc__)


@rule.at(Zero)
def at_zero(entry: Entry[Zero]) -> Iterator[Finding]:
    for waste in entry.wasted:
        if waste.tail:
            because = [
                Because("zeroed", entry.event.site, "what is left of the epoch is zeroed here")
            ]
            owners = sorted(waste.owners)
            yield _found(entry, waste.site, owners, because)


@rule.at(Close)
def at_close(entry: Entry[Close]) -> Iterator[Finding]:
    if entry.event.early:
        return
    for owner in entry.optimizers.values():
        tail = _tail(entry, owner)
        if owner.window and owner.stepped_at and 0 < batches_in(tail) < owner.window.size:
            because = [Because("stepped", owner.stepped_at, "steps once for several batches")]
            yield _found(entry, owner.window.site, [owner.name], because)


def _tail(entry: Entry[Close], owner: Optimizer) -> list[Credit]:
    """What waits for this optimizer at the end, of the line that filled its windows."""
    waiting = {number for name in owner.accounts for number in entry.before[name].fresh}
    credits = [entry.pending[number] for number in sorted(waiting)]
    return [
        credit
        for credit in credits
        if owner.window and credit.site == owner.window.site and _unspent(credit)
    ]


def _unspent(credit: Credit) -> bool:
    return not credit.spent_by and not credit.excuse


def _found(
    entry: Entry[Zero | Close], line: Site, owners: list[str], because: list[Because]
) -> Finding:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(map(variable, owners)))
    return rule.found(
        entry,
        f"the gradients of the last batches are never applied: no step() of {names} follows",
        site=line,
        detail=f"account {names}: credited on {line.line}, the last window not full, never spent",
        remedy="after the loop, step() once more on what is left, divided by the batches it holds",
        because=because,
    )
