"""The learning-rate scheduler moves on other than once for each step of its optimizer.

Ticking on every micro-batch of a window runs through the schedule N times too fast: warm-up and
decay are over long before the training is. Ticking before the optimizer's first step keeps the
schedule one step ahead: its first value is skipped, and each change comes too early.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    scheduler.step()  # <-
```

To see it, print `scheduler.get_last_lr()` beside the number of steps taken.

To fix it, step the scheduler right after the optimizer, under the same condition.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
```

One scheduler step per epoch is fine, and so are the one in a scheduler's own constructor, those
that run forward to where a checkpoint left off, and schedulers that are fed a metric. Where a
schedule's length is multiplied by the window's, it counts batches, and may step with each.
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step, Tick
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import TickMark
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK205", "scheduler-out-of-step", Severity.WARNING, __doc__)


@rule.at(Tick)
def before_the_first_step(entry: Entry[Tick]) -> Iterator[Finding]:
    """A line that ticked before the first step and goes on; running forward has ended by then."""
    owner = entry.owner
    if owner is None or entry.event.metric or not owner.steps:
        return
    here, scheduler = entry.event.site, variable(entry.event.scheduler)
    if here not in owner.early_ticks:
        return
    because = (
        [Because("stepped", owner.stepped_at, f"`{owner.variable}` steps here")]
        if owner.stepped_at
        else []
    )
    yield rule.found(
        entry,
        f"{scheduler}.step() comes before the first {owner.variable}.step(): the schedule runs "
        "one step ahead",
        detail=f"account {owner.named_from(here)}: first spent after `{scheduler}` had moved on",
        remedy=f"{scheduler}.step() after {owner.variable}.step()",
        because=because,
    )


@rule.at(Step)
def inside_a_window(entry: Entry[Step]) -> Iterator[Finding]:
    window, owner = entry.window, entry.owner
    if window is None or owner is None or window.size < 2:
        return
    inside, gaps = _between_batches(owner.ticks, entry.spent)
    if not gaps or len(inside) < gaps:
        return
    here = inside[0].site
    yield rule.found(
        entry,
        f"the scheduler steps on every batch, {owner.named_from(here)} once for several",
        site=here,
        detail=f"account {owner.named_from(here)}: spent on {entry.event.site.brief_from(here)} "
        "once for several batches; the learning rate moves on each",
        remedy="scheduler.step() where the optimizer steps, under the same condition",
        because=[Because("stepped", entry.event.site, "steps once for several batches")],
    )


def _between_batches(
    ticks: tuple[TickMark, ...], spent: tuple[Credit, ...]
) -> tuple[list[TickMark], int]:
    """Those between two batches of the window that belong to one epoch, and how many such places
    there are: where an epoch ends within the window, a tick is no fault."""
    batches: dict[int, set[int]] = {}
    for credit in spent:
        batches.setdefault(credit.epoch, set()).add(credit.batch)
    inside = [
        tick
        for tick in ticks
        if tick.epoch in batches
        and min(batches[tick.epoch]) <= tick.batch < max(batches[tick.epoch])
    ]
    return inside, sum(len(found) - 1 for found in batches.values())
