"""The learning-rate scheduler moves on other than once for each step of its optimizer.

Ticking on every micro-batch of a window runs through the schedule N times too fast: warm-up and
decay are over long before the training is. Ticking before the optimizer's first step skips the
schedule's first value.

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

To fix it, tick right after the step, under the same condition.

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

One tick per epoch is fine, and so are the scheduler's own first tick, ticks that run forward to
where a checkpoint left off, and schedulers that are fed a metric.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step, Tick
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import TickMark
from gradkeeper.model.rule import Rule

rule = Rule("GK205", "scheduler-out-of-step", Severity.WARNING, __doc__)


@rule.at(Tick)
def before_the_first_step(entry: Entry[Tick]) -> Iterator[Finding]:
    """A line that ticked before the first step and goes on; running forward has ended by then."""
    owner = entry.owner
    if owner is None or entry.event.metric or not owner.steps:
        return
    if entry.event.site not in owner.early_ticks:
        return
    because = (
        [Because("stepped", owner.stepped_at, f"`{owner.name}` steps here")]
        if owner.stepped_at
        else []
    )
    yield rule.found(
        entry,
        f"moves the learning rate on before `{owner.name}` has stepped",
        detail=f"scheduler `{entry.event.scheduler}`: ticked before the first step of "
        f"`{owner.name}`, so the first value is never used",
        remedy=f"{entry.event.scheduler}.step() after {owner.name}.step()",
        because=because,
    )


@rule.at(Step)
def inside_a_window(entry: Entry[Step]) -> Iterator[Finding]:
    window, owner = entry.window, entry.owner
    if window is None or owner is None or window.size < 2:
        return
    inside = [tick for tick in owner.ticks if _is_inside(tick, entry)]
    if len(inside) < window.size - 1:
        return
    yield rule.found(
        entry,
        f"ticks on each of the {window.size} batches that one step spends",
        site=inside[0].site,
        detail=f"account `{owner.name}`: {len(inside)} ticks inside the window that line "
        f"{entry.event.site.line} spends",
        remedy="tick where the optimizer steps, under the same condition",
        because=[Because("stepped", entry.event.site, f"steps once for {window.size} batches")],
    )


def _is_inside(tick: TickMark, entry: Entry[Step]) -> bool:
    """Between two batches of the window that belong to one epoch."""
    earlier = [one for one in entry.spent if one.batch <= tick.batch and one.epoch == tick.epoch]
    later = [one for one in entry.spent if one.batch > tick.batch and one.epoch == tick.epoch]
    return bool(earlier) and bool(later)
