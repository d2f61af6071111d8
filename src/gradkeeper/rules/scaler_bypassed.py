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
from gradkeeper.model.rule import Rule

rule = Rule("GK302", "scaler-bypassed", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if not entry.spends or entry.owner is None or entry.adjusted:
        return
    if entry.event.scaler is None:
        yield from _still_scaled(entry, entry.owner.name)
    else:
        yield from _never_scaled(entry, entry.owner.name, entry.event.scaler)


def _still_scaled(entry: Entry[Step], owner: str) -> Iterator[Finding]:
    scaled = [one for one in entry.before.values() if one.scaler and one.fresh]
    if not scaled:
        return
    line = entry.spent[-1].site
    yield rule.found(
        entry,
        f"spends gradients that are still multiplied by the scale of `{scaled[0].scaler}`",
        detail=f"account `{owner}`: credited with a scaled loss on "
        f"{line.brief_from(entry.event.site)}, spent without unscaling",
        remedy=f"{scaled[0].scaler}.step({owner}), then {scaled[0].scaler}.update()",
        because=[Because("credited", line, "this loss was multiplied by the scale")],
    )


def _never_scaled(entry: Entry[Step], owner: str, scaler: str) -> Iterator[Finding]:
    plain = [one for one in entry.spent if one.scaler is None and not one.by_hand]
    if not plain:
        return
    line = plain[-1].site
    yield rule.found(
        entry,
        f"divides by the scale of `{scaler}` a gradient that was never multiplied by it",
        detail=f"account `{owner}`: credited with a plain loss on "
        f"{line.brief_from(entry.event.site)}, spent through `{scaler}`",
        remedy=f"{scaler}.scale(loss).backward()",
        because=[Because("credited", line, "this loss was not scaled")],
    )
