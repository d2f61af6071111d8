"""The ranks exchange gradients on every micro-batch of a window.

The result is the same; the time is not. One exchange per window is enough: the accumulated
gradient goes round once, with the last micro-batch.

```python bad runtime
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(4, 8, 4)):
    loss = model(x).square().mean() / 2
    loss.backward()
    if (i + 1) % 2 == 0:
        optimizer.step()  # <-
        optimizer.zero_grad()
dist.destroy_process_group()
```

To see it, profile the all-reduce calls.

To fix it, wrap all but the last micro-batch of a window in `model.no_sync()`.

```python good runtime
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(4, 8, 4)):
    last = (i + 1) % 2 == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = model(x).square().mean() / 2
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK502", "sync-every-microbatch", Severity.INFO, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    window = entry.window
    if window is None or window.size < 2 or entry.owner is None:
        return
    reduces = max((account.reduces for account in entry.before.values()), default=0)
    if reduces < window.size:
        return
    here = entry.event.site
    yield rule.found(
        entry,
        f"the ranks exchange gradients on every backward() of {window.site.seen_from(here)}: once "
        "for each step() would do",
        detail=f"account {entry.owner.named_from(here)}: exchanged on each backward of "
        f"{window.site.brief_from(here)}, spent on {here.line}",
        remedy="model.no_sync() around all but the last micro-batch before a step",
        because=[Because("credited", window.site, "exchanges gradients each time")],
    )
