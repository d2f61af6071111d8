"""A layer that couples the rows of a batch lies inside an accumulation window.

BatchNorm and its kin normalise each micro-batch by its own statistics. Four batches of 8 then
give another gradient than one batch of 32, however well the losses are divided: the partition
matters.

```python bad
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()  # <-
        optimizer.zero_grad()
```

To see it, compare with the gradient of the window in one batch.

To fix it, use a norm that looks at one row at a time (LayerNorm, GroupNorm), freeze the
statistics, or accept it.

```python good
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK206", "batch-coupled-window", Severity.INFO, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    window = entry.window
    if window is None or window.size < 2 or entry.owner is None:
        return
    here = entry.event.site
    if any(credit.coupled for credit in entry.spent):
        yield rule.found(
            entry,
            f"step() applies several batches of {window.site.seen_from(here)}, normalised one by "
            "one by a layer such as BatchNorm",
            detail=f"account {entry.owner.named_from(here)}: credited on "
            f"{window.site.brief_from(here)} by batches whose rows are coupled",
            remedy="LayerNorm or GroupNorm, or frozen statistics",
            because=[Because("credited", window.site, "each batch has its own statistics")],
        )
