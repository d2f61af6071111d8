"""`zero_grad()` stands between forward and backward.

The result is the same as with `zero_grad()` at the top of the iteration, as long as nothing in
between reads or fills `.grad`. The top reads clearer, frees the old gradients before the forward
needs memory, and stays right when somebody adds an auxiliary loss above it.

```python bad static
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    loss = model(x).square().mean()
    optimizer.zero_grad()  # <-
    loss.backward()
    optimizer.step()
```

To fix it, move the line to the top of the iteration.

```python good static
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Backward
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK603", "late-zero", Severity.INFO, __doc__)


@rule.at(Backward)
def check(entry: Entry[Backward]) -> Iterator[Finding]:
    late = next((account for account in entry.before.values() if account.zeroed_late), None)
    if late is None or late.zeroed_late is None:
        return
    here, line = late.zeroed_late, entry.event.site
    yield rule.found(
        entry,
        f"zeroes between the forward and backward() on {line.seen_from(here)}",
        site=here,
        detail=f"account {late.label}: zeroed on {here.line}, after the forward whose "
        f"loss is credited on {line.brief_from(here)}",
        remedy="move it to the top of the iteration",
    )
