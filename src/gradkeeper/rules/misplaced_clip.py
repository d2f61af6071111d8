"""Gradients are clipped where clipping does nothing, or the wrong thing.

After the step there is nothing left to protect; before backward there is nothing yet to clip; and
on every micro-batch of a window each clip shrinks what was accumulated before it, so that early
batches lose weight and the sum is not bounded as one would think.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-
```

To see it, print the gradient's norm right before the step: it exceeds the bound.

To fix it, clip once, between the last backward of the window and the step.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
```

Measuring a norm with an infinite bound is fine anywhere.
"""

import math
from collections.abc import Iterator

from gradkeeper.model.account import Account, ClipMark
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Clip, Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK304", "misplaced-clip", Severity.ERROR, __doc__)

REMEDY = "clip once, between the last backward() and step()"


@rule.at(Clip)
def after_the_step(entry: Entry[Clip]) -> Iterator[Finding]:
    if entry.event.bound is not None and math.isinf(entry.event.bound):
        return
    accounts = entry.before.values()
    lots = [lot for account in accounts for lot in account.lots]
    shared = any(len(account.owners) > 1 for account in accounts)
    if not lots or shared or any(account.fresh for account in accounts):
        return
    here, spent = entry.event.site, lots[0].spent_at
    name = next(iter(accounts)).label
    yield rule.found(
        entry,
        f"clips gradients that {spent.seen_from(here)} has already applied",
        detail=f"account {name}: credited on {lots[0].site.brief_from(here)}, "
        f"spent on {spent.brief_from(here)}, clipped on {here.line}",
        remedy=REMEDY,
        because=[Because("spent", spent, "the step comes before the clip")],
    )


@rule.at(Clip)
def where_nothing_is(entry: Entry[Clip]) -> Iterator[Finding]:
    """What torch refuses ends the script, mostly: no step will come to tell it."""
    owned = [account for account in entry.before.values() if account.owners]
    if not entry.event.refused or not owned:
        return
    yield rule.found(
        entry,
        "clips before backward(): there is no gradient yet, and torch refuses",
        detail=f"account {owned[0].label}: clipped on {entry.event.site.line}, nothing credited",
        remedy=REMEDY,
    )


@rule.at(Step)
def before_or_during_backward(entry: Entry[Step]) -> Iterator[Finding]:
    if not entry.spent or entry.owner is None:
        return
    for account in entry.before.values():
        clip = _too_early(account) or _on_each(account, entry)
        if clip:
            yield _found(entry, account, clip)
            return


def _too_early(account: Account) -> ClipMark | None:
    """A clip that found nothing, and no other clip after it."""
    if any(clip.fresh for clip in account.clips) or not account.fresh:
        return None
    return next((clip for clip in account.clips if clip.vacant), None)


def _on_each(account: Account, entry: Entry[Step]) -> ClipMark | None:
    """Clips between the batches of one window, as many as there are gaps."""
    if entry.window is None or entry.window.size < 2:
        return None
    between = [
        clip
        for clip in account.clips
        if clip.fresh and 0 < account.credited - clip.credited < len(account.fresh)
    ]
    return between[0] if len(between) >= entry.window.size - 1 else None


def _found(entry: Entry[Step], account: Account, clip: ClipMark) -> Finding:
    here, line = clip.site, entry.spent[-1].site
    if clip.vacant:
        message = f"clips before backward() on {line.seen_from(here)}: there is no gradient yet"
    else:
        message = f"clips after every backward() of {line.seen_from(here)}: each time, what was "
        message += "added before shrinks"
    return rule.found(
        entry,
        message,
        site=here,
        detail=f"account {account.label}: clipped on {here.line}, credited on "
        f"{line.brief_from(here)} after that, spent on {entry.event.site.brief_from(here)}",
        remedy=REMEDY,
        because=[
            Because("credited", line, "the last backward of the window"),
            Because("stepped", entry.event.site, "applies it"),
        ],
    )
