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

Gradients that are read for themselves, or by which weights are moved by hand, are not meant.
"""

from collections import Counter
from collections.abc import Iterator

from gradkeeper.model.account import Account
from gradkeeper.model.credit import Trail
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule

rule = Rule("GK107", "never-stepped", Severity.WARNING, __doc__)

AGAIN_AND_AGAIN = 3


@rule.at(Close)
def check(entry: Entry[Close]) -> Iterator[Finding]:
    waiting = Counter(
        credit.site
        for credit in entry.pending.values()
        if not credit.spent_by and not credit.excuse
    )
    for trail in entry.trails:
        lost = trail.wasted + waiting[trail.site]
        if trail.spent or lost < AGAIN_AND_AGAIN:
            continue
        accounts = [entry.before[name] for name in trail.accounts if name in entry.before]
        if any(one.moved or one.spenders or one.escaped for one in accounts):
            continue
        owner = _idle_owner(entry, accounts)
        if owner:
            yield _found(entry, owner, trail)


def _idle_owner(entry: Entry[Close], accounts: list[Account]) -> Optimizer | None:
    """The one to name, if none of the accounts' optimizers has ever stepped."""
    names = dict.fromkeys(name for account in accounts for name in account.owners)
    owners = [entry.optimizers[name] for name in names if name in entry.optimizers]
    if not owners or any(owner.steps or owner.escaped for owner in owners):
        return None
    return owners[0]


def _found(entry: Entry[Close], owner: Optimizer, trail: Trail) -> Finding:
    here = trail.site
    return rule.found(
        entry,
        f"backward() fills the gradients of {owner.named_from(here)}, which never steps",
        site=here,
        detail=f"account {owner.named_from(here)}: credited on {here.line} again and again, "
        "never spent",
        remedy=f"{owner.variable}.step() after backward()",
        because=[Because("built", owner.site, f"`{owner.variable}` was built here")],
    )
