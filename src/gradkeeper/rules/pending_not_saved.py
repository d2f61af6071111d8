"""A checkpoint is written while gradients wait to be applied, and does not hold them.

Neither `model.state_dict()` nor `optimizer.state_dict()` contains `.grad`, whatever tutorials
say. A checkpoint between backward and step, or in the middle of an accumulation window, loses
what was accumulated: a resumed run is no longer the same run.

```python bad
import io

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 2
    loss.backward()
    if i == 2:
        torch.save({"model": model.state_dict(), "opt": optimizer.state_dict()}, io.BytesIO())  # <-
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

To see it, load the checkpoint and print `next(model.parameters()).grad`: None.

To fix it, save right after a step, or save the gradients on purpose.

```python good
import io

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 2
    loss.backward()
    if (i + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
    if i == 3:
        torch.save({"model": model.state_dict(), "opt": optimizer.state_dict()}, io.BytesIO())
```

The discriminator's leftovers of a generator's loss that was already applied are no loss. Neither
is a checkpoint that was written right after the step and is written again, of the same weights,
while the next window fills, nor weights that are saved alone between the last backward and its
step: their loss is the one that was just computed.
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close, Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK401", "pending-not-saved", Severity.WARNING, __doc__)


@rule.at(Step)
def at_step(entry: Entry[Step]) -> Iterator[Finding]:
    """The live run spends what the checkpoint has lost."""
    waiting = [credit for credit in entry.spent if credit.saved_at and not credit.spent_by]
    to_resume = any(credit.saved_to_resume for credit in waiting)
    # Weights alone, right before the step, are those whose loss was seen: a result, not a state.
    if waiting and (to_resume or _goes_on(entry, waiting[-1])) and not entry.escaped:
        yield _found(entry, waiting)


def _goes_on(entry: Entry[Step], saved: Credit) -> bool:
    """The window was not full yet."""
    return any(credit.number > saved.number for credit in entry.spent)


@rule.at(Close)
def at_close(entry: Entry[Close]) -> Iterator[Finding]:
    """Saved to go on from, and then the run ended."""
    waiting = [
        credit
        for credit in entry.pending.values()
        if credit.saved_to_resume
        and not credit.spent_by
        and not credit.excuse
        and _waits(entry, credit)
    ]
    if waiting:
        yield _found(entry, waiting)


def _waits(entry: Entry[Close], credit: Credit) -> bool:
    """Somebody was to step with it, and no step can have been missed."""
    owners = [entry.optimizers[name] for name in credit.owners if name in entry.optimizers]
    accounts = [entry.before[name] for name in credit.accounts if name in entry.before]
    if any(owner.escaped for owner in owners) or any(account.escaped for account in accounts):
        return False
    return any(account.owners for account in accounts if credit.number in account.fresh)


def _found(entry: Entry[Step | Close], waiting: list[Credit]) -> Finding:
    saved = waiting[0].saved_at or entry.event.site
    line = waiting[0].site
    names = sorted(waiting[0].owners) or waiting[0].accounts
    name = variable(names[0])
    because = [
        Because("credited", line, "this backward's gradient waits, and is not in the checkpoint")
    ]
    if isinstance(entry.event, Step):
        because.append(Because("stepped", entry.event.site, "applies it later in this run"))
    return rule.found(
        entry,
        f"saves while the gradient of {line.seen_from(saved)} waits for its step(), and leaves it "
        "out",
        site=saved,
        detail=f"account `{name}`: credited on {line.brief_from(saved)}, not spent when saved on "
        f"{saved.line}; state_dict() holds no .grad",
        remedy="save right after step() and zero_grad()",
        because=because,
    )
