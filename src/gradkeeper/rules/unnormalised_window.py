"""The mean losses of several batches are added up and never divided by their number.

Each `backward()` adds the gradient of one batch's mean loss. After N of them the sum is N times
the gradient of the big batch that accumulation is meant to imitate: an N times larger learning
rate with SGD, and with any optimizer a clipping threshold that means something else. Adam divides
by the size of its gradients, which hides the factor, but for its eps and for L2 decay.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean()
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()  # <-
        optimizer.zero_grad()
```

To see it, compare the gradient before the step with that of all the window's rows in one batch.

To fix it, divide each loss by the number of batches in the window. Where batches hold different
numbers of items, add up sums and divide the gradient once by the number of items.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

Several losses of one batch (tasks, time steps) are a sum by design.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK201", "unnormalised-window", Severity.WARNING, __doc__)

MEANS = ("mean", "assumed mean")


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    """From the second window on: a first one of two batches may be a step skipped by hand."""
    window, owner = entry.window, entry.owner
    if window is None or owner is None or owner.window is None:
        return
    if window.size < 2 or window.divisor != 1 or entry.adjusted:
        return
    if owner.window.size < 2 or owner.window.site != window.site:
        return
    fill = [credit for credit in entry.spent if credit.site == window.site]
    several_sources = len({credit.source for credit in fill}) > 1
    if several_sources or any(credit.reduction not in MEANS for credit in fill):
        return
    here, line = entry.event.site, window.site
    yield rule.found(
        entry,
        f"step() applies the mean losses of {line.seen_from(here)} added up, not divided by the "
        "number of batches",
        detail=f"account {owner.named_from(here)}: credited on {line.brief_from(here)} by several "
        f"batches, each loss with weight 1, spent on {here.line}",
        remedy="(loss / N).backward(), with N batches for each step",
        because=[Because("credited", line, "each backward adds one batch's mean")],
    )
