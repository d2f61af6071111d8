"""Batches with different numbers of counted items are averaged with equal weight.

`cross_entropy(..., ignore_index=...)` returns the mean over the items that count. Averaging such
means over a window gives an item in a short batch more weight than one in a long batch: with 62,
12, 30 and 7 tokens in four batches the gradient is off by about as much as it is long.

```python bad runtime
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    target = torch.randint(3, (8,))
    target[: i % 4 * 2] = -100
    loss = F.cross_entropy(model(x), target, ignore_index=-100) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()  # <-
        optimizer.zero_grad()
```

To see it, compare with the gradient of the whole window in one batch.

To fix it, add up sums over items and divide once by the window's number of items.

```python good runtime
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
items = 0
for i, x in enumerate(torch.randn(8, 8, 4)):
    target = torch.randint(3, (8,))
    target[: i % 4 * 2] = -100
    loss = F.cross_entropy(model(x), target, ignore_index=-100, reduction="sum")
    loss.backward()
    items += (target != -100).sum()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad /= items
        optimizer.step()
        optimizer.zero_grad()
        items = 0
```

A last batch that merely holds fewer rows is not meant.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK204", "mean-of-means", Severity.WARNING, __doc__)

# Below this the wrong weights are lost in the noise of sampling a batch.
NOTABLE = 1.05


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    window = entry.window
    if window is None or window.size < 2 or entry.owner is None or entry.adjusted:
        return
    fill = [credit for credit in entry.spent if credit.site == window.site]
    if any(credit.reduction != "mean" or credit.items is None for credit in fill):
        return
    equal_weight = len({credit.multiplier for credit in fill}) == 1
    if not equal_weight or len({credit.ignored for credit in fill}) == 1:
        return
    items = [credit.items or 0 for credit in fill]
    if max(items) <= NOTABLE * min(items):
        return
    counts = ", ".join(str(count) for count in items[:8])
    yield rule.found(
        entry,
        f"step() averages means over {min(items)} to {max(items)} items with equal weight",
        detail=f"account {entry.owner.named_from(entry.event.site)}: credited on "
        f"{window.site.brief_from(entry.event.site)} "
        f"with means over {counts} items",
        remedy='reduction="sum", then divide the gradients once by the items of all batches',
        because=[
            Because(
                "credited", window.site, "ignore_index leaves a different number of items each time"
            )
        ],
    )
