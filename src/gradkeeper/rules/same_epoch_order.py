"""A DistributedSampler gives the data out in the same order, epoch after epoch.

`DistributedSampler` shuffles by a generator that it seeds anew each time, with its `seed` plus its
`epoch`, so that all ranks agree. Nobody but you tells it which epoch it is: without `set_epoch()`
the number stays 0, every epoch has the same batches in the same order, and each rank sees the same
share of the data for ever.

```python bad
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.randn(32, 4))
sampler = DistributedSampler(data, num_replicas=1, rank=0)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for (x,) in loader:  # <-
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
```

To see it, print the first batch of two epochs.

To fix it, tell the sampler which epoch begins.

```python good
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.randn(32, 4))
sampler = DistributedSampler(data, num_replicas=1, rank=0)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
```

A sampler that does not shuffle, a single epoch, a loader that only evaluates and data that is told
the epoch itself are not meant. Accelerate, Fabric and Lightning tell the samplers of the loaders
that they were given. Reading, gradkeeper is silent where any line of the program calls `set_epoch`.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK505", "same-epoch-order", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    """Where a step applies what was learned from an order that came before."""
    loops = dict.fromkeys(credit.same_order for credit in entry.spent if credit.same_order)
    for loop in loops:
        here = entry.event.site
        yield rule.found(
            entry,
            "takes the data in the same order as the epoch before: set_epoch() is not called",
            site=loop,
            detail="the DistributedSampler of this loader shuffles by its seed and its epoch, "
            "which both stay as they are",
            remedy="sampler.set_epoch(epoch) at the top of each epoch",
            because=[Because("stepped", here, "trains on it")],
        )
