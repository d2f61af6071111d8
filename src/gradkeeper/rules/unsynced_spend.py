"""A step applies gradients that the ranks have not exchanged.

`no_sync()` is for the first micro-batches of a window; the last one must run outside it. A window
closed inside lets each rank step along its own gradient: from then on the ranks train different
models, and nothing says so. With FSDP2 it is `set_requires_gradient_sync(False)`: what was not
exchanged waits beside the shards, the step leaves it out, and a later window spends it.

DDP decides at the forward whether this backward will exchange, so that a flag
(`require_backward_grad_sync`) that is set between the two comes too late.

Gradients that the program itself sums over the ranks, by `all_reduce`, are exchanged.

```python bad
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 8, 4):
    optimizer.zero_grad()
    with model.no_sync():
        loss = model(x).square().mean()
        loss.backward()
    optimizer.step()  # <-
dist.destroy_process_group()
```

To see it, compare a weight on two ranks after a few steps.

To fix it, leave `no_sync()`, or call `set_requires_gradient_sync(True)`, before the window's last
forward and backward.

```python good
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for first, last in torch.randn(4, 2, 8, 4):
    optimizer.zero_grad()
    with model.no_sync():
        (model(first).square().mean() / 2).backward()
    (model(last).square().mean() / 2).backward()
    optimizer.step()
dist.destroy_process_group()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK501", "unsynced-spend", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if not entry.spent or entry.owner is None:
        return
    unsynced = max((account.unsynced for account in entry.before.values()), default=0)
    if not unsynced:
        return
    here, line = entry.event.site, entry.spent[-1].site
    yield rule.found(
        entry,
        f"step() applies gradients of {line.seen_from(here)} that the ranks have not exchanged",
        detail=f"account {entry.owner.named_from(here)}: credited on {line.brief_from(here)} "
        f"without an exchange, spent on {here.line}",
        remedy="switch the exchange on before the window's last forward (FSDP2: its last backward)",
        because=[Because("credited", line, "this backward exchanged nothing")],
    )
