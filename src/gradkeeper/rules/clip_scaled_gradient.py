"""Gradients are clipped while they are still multiplied by the loss scale.

With a `GradScaler`, `.grad` holds the gradient times a factor such as 65536. Clipping it to 1.0
before `scaler.unscale_(optimizer)` leaves, after unscaling, an update thousands of times too
short.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-
    scaler.step(optimizer)
    scaler.update()
```

To see it, print what `clip_grad_norm_` returns: the norm is huge, and follows the scale.

To fix it, unscale first.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```

A norm measured with an infinite bound clips nothing, and a bound multiplied by the scale is
right.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK301", "clip-scaled-gradient", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if entry.owner is None or not entry.spends:
        return
    clips = [clip for account in entry.before.values() for clip in account.clips]
    clip = next((clip for clip in clips if clip.scaled and clip.fresh), None)
    if clip is None:
        return
    scaler = variable(entry.spent[-1].scaler or entry.event.scaler or "scaler")
    line, here = entry.spent[-1].site, clip.site
    yield rule.found(
        entry,
        f"clips gradients that are still multiplied by the scale of `{scaler}`",
        site=here,
        detail=f"account {entry.owner.named_from(here)}: credited on {line.brief_from(here)} with "
        f"a scaled loss, clipped on {here.line}, spent on {entry.event.site.brief_from(here)}",
        remedy=f"{scaler}.unscale_({entry.owner.variable}) before clipping",
        because=[
            Because("credited", line, "this loss was multiplied by the scale"),
            Because("stepped", entry.event.site, "applies what was clipped"),
        ],
    )
