"""An exception around backward is caught, and the interrupted batch's gradients are applied later.

An out-of-memory error inside `backward()` leaves gradients half written: some layers have this
batch's share, others do not. `except: continue` without `zero_grad()` adds the next batch on top
and steps on the mixture.

```python bad
import torch


def hook(grad):
    global calls
    calls += 1
    if calls == 3:
        raise RuntimeError("out of memory")


model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
calls = 0
model[0].weight.register_hook(hook)
for x in torch.randn(6, 8, 4):
    try:
        loss = model(x).square().mean()
        loss.backward()
    except RuntimeError:
        continue
    optimizer.step()  # <-
    optimizer.zero_grad()
```

To see it, print which parameters have a gradient right after the exception.

To fix it, clear what is left before going on.

```python good
import torch


def hook(grad):
    global calls
    calls += 1
    if calls == 3:
        raise RuntimeError("out of memory")


model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
calls = 0
model[0].weight.register_hook(hook)
for x in torch.randn(6, 8, 4):
    try:
        loss = model(x).square().mean()
        loss.backward()
    except RuntimeError:
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
```
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK605", "swallowed-fault", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    broken = next((credit for credit in entry.spent if _interrupted(credit, entry.batch)), None)
    if broken is None or broken.faulted_at is None or entry.owner is None:
        return
    here, line = entry.event.site, broken.site
    yield rule.found(
        entry,
        f"step() applies what an interrupted backward() of {line.seen_from(here)} left behind",
        detail=f"account {entry.owner.named_from(here)}: credited on {line.brief_from(here)}, "
        f"interrupted by an exception on {broken.faulted_at.brief_from(here)}, not zeroed since",
        remedy=f"{entry.owner.variable}.zero_grad() where the exception is caught",
        because=[
            Because("credited", broken.site, "was interrupted"),
            Because("faulted", broken.faulted_at, "the exception"),
        ],
    )


def _interrupted(credit: Credit, batch: int) -> bool:
    """Half written, or whole but left over from a batch that was given up."""
    return credit.torn or (credit.faulted_at is not None and credit.batch < batch)
