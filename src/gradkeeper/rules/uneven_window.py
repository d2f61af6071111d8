"""One window holds more or fewer batches than the number its losses are divided by.

Four ways lead here. The number of batches is no multiple of N, and the rest of one epoch is
added to the first window of the next. Or the rest gets a step of its own, but each loss is still
divided by the full N, so the step is too short. Or the window is closed at `i % N == 0` with `i`
counted from zero, so that the first one holds a single batch. Or the optimizer steps in a hook of
the backward itself, which spends each batch alone, and the loss is divided all the same.

```python bad
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(56, 4), batch_size=8)
for epoch in range(3):
    for i, x in enumerate(loader):
        loss = model(x).square().mean() / 3
        loss.backward()
        if (i + 1) % 3 == 0 or i + 1 == len(loader):
            optimizer.step()  # <-
            optimizer.zero_grad()
```

To see it, count the backward calls before each step.

To fix it, close the last window of each epoch too, and divide by what it really holds; or drop
the rest on purpose with `drop_last` and a number of batches that N divides. Where the first window
is the short one, step at `(i + 1) % N == 0`, not at `i % N == 0`: `enumerate` counts from zero.

```python good
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(48, 4), batch_size=8)
for epoch in range(3):
    for i, x in enumerate(loader):
        loss = model(x).square().mean() / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
```

Windows of equal size that go on across epochs, by a counter that is never reset, are fine.
"""

from collections.abc import Iterator
from typing import NamedTuple

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.window import Window

rule = Rule("GK202", "uneven-window", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    now = entry.window
    last = entry.owner.window if entry.owner else None
    if entry.owner is None or now is None or last is None or now.site != last.site:
        return
    fault = _carried_over(now, last) or _wrongly_divided(now, last)
    if fault is None and entry.event.hooked and _divided_for_many(now, last):
        fault = HOOKED
    if fault is None or entry.adjusted:
        return
    here = entry.event.site
    yield rule.found(
        entry,
        fault.message,
        detail=f"account {entry.owner.named_from(here)}: credited on {now.site.brief_from(here)} "
        f"{fault.often}",
        remedy=fault.remedy,
        because=[Because("credited", now.site, fault.note)],
    )


class Unevenness(NamedTuple):
    message: str
    often: str
    """How many backward calls each step applies."""
    remedy: str
    note: str = "fills windows of different sizes"
    """What the backward does."""


CARRIED_OVER = Unevenness(
    "step() applies the last batches of one epoch together with the first of the next",
    "more times for this step than for the one before",
    "step() once more when an epoch ends, divided by the batches left; or drop them",
)
SHORT = Unevenness(
    "step() applies fewer batches than their losses are divided by",
    "fewer times for this step than for the one before",
    "divide by the number of batches since the last step",
)
SHORT_BEFORE = Unevenness(
    "step() has applied fewer batches than their losses are divided by",
    "fewer times for the step before than for this one",
    "step after every N batches: where their count, from 1, is a multiple of N",
)
"""Seen only at the step that follows it: there the window is full."""
LONG = Unevenness(
    "step() applies more batches than their losses are divided by",
    "more times for this step than for the one before",
    "divide by the number of batches between two steps",
)
FIRST = Unevenness(
    "step() applies the first batch alone, its loss divided as if there were N",
    "once for the first step, several times for the next",
    "step where (i + 1) % N == 0: with i from 0, i % N == 0 holds for the first batch",
)
HOOKED = Unevenness(
    "step() in a backward hook applies each batch alone, its loss divided as if there were N",
    "once for each step",
    "leave out the division, or step after N batches and not in the hook",
    "divides its loss as for a window of several",
)
HALVED = 2
"""A loss may be halved for its own sake, as a squared error is; what is divided by more is not."""


def _divided_for_many(now: Window, last: Window) -> bool:
    divisor = now.divisor or 0
    return now.size == last.size == 1 and divisor == last.divisor and divisor > HALVED


def _carried_over(now: Window, last: Window) -> Unevenness | None:
    if 2 <= last.size < now.size and now.first_epoch != now.last_epoch:
        return CARRIED_OVER
    return None


def _wrongly_divided(now: Window, last: Window) -> Unevenness | None:
    divisor = now.divisor
    if divisor is None or divisor < 2 or divisor != last.divisor:
        return None
    if now.size <= divisor and now.barren != last.barren:
        return None  # a bad batch was left out of one of them on purpose
    if last.size == divisor != now.size:
        return LONG if now.size > divisor else SHORT
    same_epoch = last.last_epoch == now.first_epoch
    # By N, or by more: a framework may have divided once again.
    full = now.size == divisor or (now.size > last.size and divisor % now.size == 0)
    if full and last.size != divisor and same_epoch:
        return FIRST if last.size == 1 else SHORT_BEFORE
    return None
