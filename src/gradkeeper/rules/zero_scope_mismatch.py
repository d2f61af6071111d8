"""What is zeroed is not all of what is stepped, and the rest is applied again.

`model.zero_grad()` clears the model's parameters, `optimizer.zero_grad()` those of the optimizer.
They are the same only if the optimizer covers the model and nothing else. A learned temperature,
a second module or a criterion with weights, owned by the optimizer but outside the model, is
never cleared.

```python bad
import torch

model = torch.nn.Linear(4, 1)
head = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(6, 8, 4):
    model.zero_grad()
    loss = head(model(x)).square().mean()
    loss.backward()
    optimizer.step()  # <-
```

To see it, print the gradient norm of each part before the step: one of them grows.

To fix it, zero by the optimizer that steps.

```python good
import torch

model = torch.nn.Linear(4, 1)
head = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = head(model(x)).square().mean()
    loss.backward()
    optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK602", "zero-scope-mismatch", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if entry.owner is None or not entry.stale or not entry.zeroed_beside or entry.escaped:
        return
    name, lots = next(iter(entry.stale.items()))
    zeroed = entry.zeroed_beside[0]
    here = entry.event.site
    zero = zeroed.zeroed_at or here
    left, cleared = entry.before[name].label, zeroed.label
    yield rule.found(
        entry,
        f"step() applies the gradient of {left} a second time: {zero.seen_from(here)} zeroes "
        f"{cleared} only",
        detail=f"account {left}: credited on {lots[0].site.brief_from(here)}, spent on "
        f"{lots[0].spent_at.brief_from(here)}, not zeroed since",
        remedy=f"{entry.owner.variable}.zero_grad() instead: it clears all that is stepped",
        because=[Because("zeroed", zero, f"zeroes {cleared} and not {left}")],
    )
