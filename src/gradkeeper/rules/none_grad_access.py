"""`p.grad` is used in place where it may be None.

Before the first backward, after `zero_grad()` (which sets to None since PyTorch 2.0), and for
parameters that a loss does not reach, `p.grad` is None: `p.grad.zero_()` or `p.grad += g` raises
there, often only on the path that was never tried.

```python bad static
import torch

w = torch.zeros(4, requires_grad=True)
for x in torch.randn(6, 8, 4):
    w.grad.zero_()  # <-
    loss = (x @ w - 1).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
```

To see it, run the first iteration.

To fix it, ask first, or set to None.

```python good static
import torch

w = torch.zeros(4, requires_grad=True)
for x in torch.randn(6, 8, 4):
    if w.grad is not None:
        w.grad.zero_()
    loss = (x @ w - 1).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Adjust, Zero
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK601", "none-grad-access", Severity.WARNING, __doc__)


@rule.at(Zero, Adjust)
def check(entry: Entry[Zero | Adjust]) -> Iterator[Finding]:
    vacant = [account for account in entry.before.values() if account.vacant]
    if entry.event.guarded or not vacant:
        return
    name = vacant[0].label
    yield rule.found(
        entry,
        f"uses .grad of {name} in place where it may be None",
        detail=f"account {name}: not credited since it was made or set to None",
        remedy="ask first: if p.grad is not None:",
    )
