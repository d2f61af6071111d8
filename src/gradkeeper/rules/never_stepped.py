"""An optimizer's gradients are produced again and again, and it never steps.

Every batch pays for a backward, and nothing is learned from it: the call to `step()` is missing,
is behind a condition that never holds, or belongs to another optimizer.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()  # <-
```

To see it, compare a weight before and after the loop.

Beside another optimizer that does step, one is meant as well that is zeroed each time and never
steps: its half of the model stays as it was.

To fix it, step once for each window.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```

Gradients that are read for themselves, or by which weights are moved by hand, are not meant. An
optimizer that a function was handed may be stepped by its caller; but what the function itself
clears before it returns, nobody can apply any more.
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Trail
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule

rule = Rule("GK107", "never-stepped", Severity.WARNING, __doc__)


@rule.at(Close)
def check(entry: Entry[Close]) -> Iterator[Finding]:
    told: set[Optimizer] = set()
    for trail in entry.trails:
        idle, cleared = entry.idle_owners_of(trail), entry.all_cleared(trail)
        if not idle or trail.out_of_sight:
            continue
        if len(idle) < len(entry.owners_of(trail)) and not cleared:
            continue
        accounts = [account for owner in idle for account in entry.held_by(owner, trail)]
        if any(account.kept for account in accounts) or any(optimizer.kept for optimizer in idle):
            continue
        # Whoever handed the optimizers in finds nothing to apply where all was cleared.
        if cleared or not any(owner.given for owner in idle):
            told.update(idle)
            yield _found(entry, idle[0], trail)
    for owner, trail in entry.left_out.items():
        seen = not (owner.given or owner.escaped or owner.kept or trail.out_of_sight)
        if seen and owner not in told:
            yield _found(entry, owner, trail)


def _found(entry: Entry[Close], owner: Optimizer, trail: Trail) -> Finding:
    here = trail.site
    built = Because("built", owner.site, f"`{owner.variable}` was built here")
    return rule.found(
        entry,
        f"backward() fills the gradients of {owner.named_from(here)}, which never steps",
        site=here,
        detail=f"account {owner.named_from(here)}: credited on {here.line} again and again, "
        "never spent",
        remedy=f"{owner.variable}.step() after backward()",
        because=[] if owner.given else [built],
    )
