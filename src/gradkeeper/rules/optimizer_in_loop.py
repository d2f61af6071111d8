"""An optimizer that remembers is built anew for about every step.

Momentum and Adam's averages live in the optimizer. Building it inside the loop throws them away
each time: Adam becomes sign descent with a bias correction stuck at step one.

```python bad
import torch

model = torch.nn.Linear(4, 1)
for x in torch.randn(6, 8, 4):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # <-
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```

To see it, print `len(optimizer.state)` before each step: always 0.

To fix it, build it once, before the loop. To change the learning rate, set it in `param_groups`
or use a scheduler.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```

A new optimizer for each fold, task or attacked input is fine, and so is one that keeps no state.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK604", "optimizer-in-loop", Severity.WARNING, __doc__)

REBUILDS = 2


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    """At the first step of each: one that never steps loses nothing."""
    owner = entry.owner
    if owner is None or not owner.stateful or owner.steps or owner.rebuilds < REBUILDS:
        return
    yield rule.found(
        entry,
        f"builds `{owner.variable}` anew for about every step: its momentum and averages are lost",
        detail=f"account `{owner.variable}`: one optimizer after another over the same parameters",
        remedy="build it once, before the loop",
        site=owner.site,
    )
