"""Ranks that should hold the same weights do not.

DistributedDataParallel copies the weights once, when it wraps a module; from then on they stay
equal because every rank applies the same gradients. A backward that goes past the wrapper exchanges
nothing, and so does a flag that is set too late; a step that one rank leaves out is missing from
then on. The ranks then train models of their own, and what is saved is rank 0's. Nothing says so,
and the loss still goes down.

```python bad runtime
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
network = torch.nn.Linear(4, 1)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4) + dist.get_rank():
    optimizer.zero_grad()
    loss = network(x).square().mean()
    loss.backward()
    optimizer.step()  # <-
dist.destroy_process_group()
```

Under `torchrun … -m gradkeeper run` and in the engine, weights are compared after the first steps,
then ever more rarely, and after the last one; a few sums stand for each parameter. The line is that
of the step after which the difference was seen.

To see it, print the sum of a parameter on all ranks after a few steps.

To fix it, run every forward through the wrapper, set `require_backward_grad_sync` (or enter
`no_sync()`) before the forward, and let all ranks step together.

```python good runtime
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
network = torch.nn.Linear(4, 1)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4) + dist.get_rank():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
```

Buffers and the shards of one parameter may differ, and so may weights that are meant to: with local
SGD the ranks say so, by windows that stay within `no_sync()` as a whole or by torch's own hook for
it. Differences of rounding are no finding.
"""

from collections.abc import Iterator
from dataclasses import replace

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Replicas
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK504", "replicas-differ", Severity.ERROR, __doc__)
MOST_NAMED = 4


@rule.at(Replicas)
def check(entry: Entry[Replicas]) -> Iterator[Finding]:
    event = entry.event
    if not event.parameter:
        return
    before = f"equal after step {event.equal}" if event.equal is not None else "never seen equal"
    finding = rule.found(
        entry,
        f"{_named(event.differing)} weights than the others after step {event.step}: "
        f"`{event.parameter}` differs",
        detail=f"account `{variable(event.optimizer)}`: {before}; {len(event.differing)} of "
        f"{event.world} ranks differ",
        remedy="every forward through the DistributedDataParallel wrapper, no_sync() around "
        "forward and backward, and each step on all ranks",
    )
    yield replace(finding, first_step=event.step, last_step=event.step)


def _named(ranks: tuple[int, ...]) -> str:
    known = ", ".join(str(rank) for rank in ranks[:MOST_NAMED])
    more = " and others" if len(ranks) > MOST_NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {known}{more} hold{'s' * (len(ranks) == 1)} other"
