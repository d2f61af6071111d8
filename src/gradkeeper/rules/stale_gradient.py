"""A step applies a gradient that an earlier step of the same optimizer has already applied.

`backward()` adds to `.grad` and nothing clears it by itself. Without `zero_grad()`, each step
moves the weights along the sum of all gradients so far: a momentum that never decays. The loss
may still fall for a while, which is why nobody notices; then it swings, or training needs a
learning rate far below the usual one. Calling `step()` twice after one `backward()` does the
same, and so does a closure that LBFGS evaluates several times within a step.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()  # <-
```

To see it, print `next(model.parameters()).grad.norm()` before each step: it grows from step to
step.

To fix it, clear the gradients once for each step, at the top of the loop or right after the step.
If you mean to accumulate several batches, clear where the window begins, never in its middle.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```

Two optimizers that share a trunk may each spend the same gradient once; a step inside another
optimizer's step (a wrapper, SAM) is one step.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Move, Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import BY_HAND, Optimizer
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK101", "stale-gradient", Severity.ERROR, __doc__)


@rule.at(Step, Move)
def check(entry: Entry[Step | Move]) -> Iterator[Finding]:
    if entry.owner is None or not entry.stale:
        return
    if isinstance(entry.event, Step) and entry.zeroed_beside:
        return  # zero-scope-mismatch tells
    account, lots = next(iter(entry.stale.items()))
    lot, owner = lots[0], entry.owner
    here = entry.event.site
    by_hand = owner.name == BY_HAND
    yield rule.found(
        entry,
        f"{'this update' if by_hand else 'step()'} applies the gradient of "
        f"{lot.site.seen_from(here)} a second time",
        detail=f"account {f'`{variable(account)}`' if by_hand else owner.named_from(here)}: "
        f"credited on {lot.site.brief_from(here)}, spent on {lot.spent_at.brief_from(here)}, "
        "not zeroed since",
        remedy=_remedy(entry, owner),
        because=[
            Because("credited", lot.site, "this backward's gradient"),
            Because("spent", lot.spent_at, "was applied here already, and not zeroed since"),
        ],
    )


@rule.at(Step)
def between_evaluations(entry: Entry[Step]) -> Iterator[Finding]:
    """An optimizer that calls its closure several times moves the weights after each call."""
    accounts = entry.before.values()
    line = next((account.added_to for account in accounts if account.added_to), None)
    if entry.owner is None or entry.stale or line is None:
        return
    if any(account.zeroed_at and not account.added_to for account in accounts):
        return  # zeroed in part: zero-scope-mismatch tells
    here = entry.event.site
    yield rule.found(
        entry,
        f"step() evaluates its closure again and again, and {line.seen_from(here)} adds to what "
        "it has already applied",
        detail=f"account {entry.owner.named_from(here)}: credited on {line.brief_from(here)} at "
        f"each evaluation, spent on {here.line} after each, not zeroed in between",
        remedy=f"{entry.owner.variable}.zero_grad() at the top of the closure",
        because=[Because("credited", line, "adds to the evaluation before")],
    )


def _remedy(entry: Entry[Step | Move], owner: Optimizer) -> str:
    if owner.name == BY_HAND:
        return "p.grad = None after the update"
    if not entry.spent:
        return f"one step() for each backward(), then {owner.variable}.zero_grad()"
    return f"{owner.variable}.zero_grad() right after the step"
