"""An optimizer owns a trainable parameter that never receives a gradient.

No loss reaches it: it is left out of forward, cut off by `detach()` or `no_grad()`, or it belongs
to a part that this run does not use. It costs optimizer memory and never changes. When this holds
for every parameter of an optimizer, the whole optimizer does nothing, and the rule is a warning.

```python bad
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(4, 1)
        self.forgotten = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <-
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
```

To see it, list the parameters whose `.grad` is still None after a backward.

To fix it, leave them out of the optimizer, or let the loss reach them.

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
"""

from collections.abc import Iterator

from gradkeeper.model.account import Account
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule

rule = Rule("GK106", "starved-parameter", Severity.INFO, __doc__)


@rule.at(Close)
def check(entry: Entry[Close]) -> Iterator[Finding]:
    for owner in entry.optimizers.values():
        if owner.escaped or entry.unseen:
            continue
        own = [entry.before[name] for name in owner.accounts]
        starved = [account for account in own if _starves(account)]
        if starved and not entry.idle:
            yield _found(entry, owner, starved, whole=len(starved) == len(own))


def _starves(account: Account) -> bool:
    return account.trainable and not (account.credited or account.moved or account.escaped)


def _found(
    entry: Entry[Close], owner: Optimizer, starved: list[Account], *, whole: bool
) -> Finding:
    names = ", ".join(account.layers for account in starved[:3])
    it = "them" if names.count("`") > 2 else "it"
    certain = whole and owner.steps and not entry.works_elsewhere(owner)
    return rule.found(
        entry,
        f"{owner.named_from(owner.site)} owns {names}, which no loss has reached",
        site=owner.site,
        detail=f"account {names}: never credited"
        + (f"; `{owner.variable}` owns nothing else" if whole else ""),
        remedy=f"leave {it} out of the optimizer, or let the loss reach {it}",
        severity=Severity.WARNING if certain else None,
    )
