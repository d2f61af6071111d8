"""The scaler steps without `update()`, or is updated in the middle of a window.

Without `update()` the scale never adapts, and the second `scaler.step()` raises. With an update
between two micro-batches of one window, gradients multiplied by different factors are added up
and then divided by only one of them.

```python bad
import torch

fast, slow = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
fast_opt = torch.optim.SGD(fast.parameters(), lr=0.1)
slow_opt = torch.optim.SGD(slow.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    scaler.scale(fast(x).square().mean()).backward()
    scaler.step(fast_opt)
    fast_opt.zero_grad()
    scaler.scale(slow(x).square().mean() / 4).backward()
    if (i + 1) % 4 == 0:
        scaler.step(slow_opt)
        slow_opt.zero_grad()
    scaler.update()  # <-
```

To see it, print `scaler.get_scale()` before each backward of a window.

To fix it, update once per window, right after the step; two rhythms want two scalers.

```python good
import torch

fast, slow = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
fast_opt = torch.optim.SGD(fast.parameters(), lr=0.1)
slow_opt = torch.optim.SGD(slow.parameters(), lr=0.1)
fast_scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=1)
slow_scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    fast_scaler.scale(fast(x).square().mean()).backward()
    fast_scaler.step(fast_opt)
    fast_scaler.update()
    fast_opt.zero_grad()
    slow_scaler.scale(slow(x).square().mean() / 4).backward()
    if (i + 1) % 4 == 0:
        slow_scaler.step(slow_opt)
        slow_scaler.update()
        slow_opt.zero_grad()
```

One scaler may step several optimizers before one update.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK303", "scaler-not-updated", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    scaler, owner = entry.scaler, entry.owner
    if scaler is None or owner is None:
        return
    here, name = entry.event.site, variable(scaler.name)
    if owner.name in scaler.stepped:
        last = owner.stepped_at or here
        yield rule.found(
            entry,
            f"{name}.step({owner.variable}) comes a second time without {name}.update()",
            detail=f"account {owner.named_from(here)}: spent on {last.brief_from(here)}, "
            f"`{name}` not updated since",
            remedy=f"{name}.update() right after the step",
            because=[Because("stepped", last, "the step before")],
        )
    rounds = {credit.scale_round for credit in entry.spent if credit.scaler == scaler.name}
    if len(rounds) > 1 and scaler.updated_at:
        update, line = scaler.updated_at, entry.spent[-1].site
        yield rule.found(
            entry,
            f"{name}.update() changes the scale while gradients of the old one wait for their step",
            site=update,
            detail=f"account {owner.named_from(update)}: credited on {line.brief_from(update)} "
            f"under several scales, spent on {here.brief_from(update)} as if it were one",
            remedy=f"{name}.update() once per window, right after the step",
            because=[
                Because("credited", line, "these gradients wait for one step"),
                Because("stepped", here, "divides all of them by the last scale"),
            ],
        )
