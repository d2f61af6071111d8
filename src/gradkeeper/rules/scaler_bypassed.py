"""The loss was scaled but the optimizer stepped without the scaler, or the other way round.

After `scaler.scale(loss).backward()`, a plain `optimizer.step()` applies gradients that are still
multiplied by the scale. The reverse, `scaler.step(optimizer)` after an unscaled backward, divides
good gradients by the scale until next to nothing is left.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    optimizer.step()  # <-
```

To see it, print the gradient's norm before the step: it follows the scale.

To fix it, let the scaler step, and update it.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

A direct step after `scaler.unscale_(optimizer)` spends the gradient at its right weight.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK302", "scaler-bypassed", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if not entry.spends or entry.owner is None or entry.adjusted:
        return
    if entry.event.scaler is None:
        yield from _still_scaled(entry, entry.owner)
    else:
        yield from _never_scaled(entry, entry.owner, variable(entry.event.scaler))


def _still_scaled(entry: Entry[Step], owner: Optimizer) -> Iterator[Finding]:
    scaled = [
        account.scaler for account in entry.before.values() if account.scaler and account.fresh
    ]
    if not scaled:
        return
    here, line, scaler = entry.event.site, entry.spent[-1].site, variable(scaled[0])
    yield rule.found(
        entry,
        f"step() applies gradients that are still multiplied by the scale of `{scaler}`",
        detail=f"account {owner.named_from(here)}: credited on {line.brief_from(here)} with a "
        f"scaled loss, spent on {here.line} without unscaling",
        remedy=f"{scaler}.step({owner.variable}), then {scaler}.update()",
        because=[Because("credited", line, "this loss was multiplied by the scale")],
    )


def _never_scaled(entry: Entry[Step], owner: Optimizer, scaler: str) -> Iterator[Finding]:
    plain = [credit for credit in entry.spent if credit.scaler is None and not credit.by_hand]
    if not plain:
        return
    here, line = entry.event.site, plain[-1].site
    yield rule.found(
        entry,
        f"{scaler}.step() divides the gradient of {line.seen_from(here)} by a scale that it was "
        "never multiplied by",
        detail=f"account {owner.named_from(here)}: credited on {line.brief_from(here)} with a "
        f"plain loss, spent on {here.line} through `{scaler}`",
        remedy=f"{scaler}.scale(loss).backward()",
        because=[Because("credited", line, "this loss was not scaled")],
    )
