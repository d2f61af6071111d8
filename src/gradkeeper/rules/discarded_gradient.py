"""Gradients are zeroed before any step could apply them.

`zero_grad()` between `backward()` and `step()` leaves the step with nothing, or with only the
last micro-batch of what was meant to be a window. The loop runs, costs the same, and learns
nothing or from a fraction of its data.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    optimizer.zero_grad()  # <-
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
```

To see it, train with the other micro-batches replaced by garbage: the weights come out the same.

To fix it, zero where the window begins: right after the step, or before the first micro-batch.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    loss = model(x).square().mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

Some gradients are thrown away on purpose: those of inputs (saliency, attacks), those read for
themselves (a Fisher matrix, gradient surgery), those of a batch that was skipped because its norm
was not finite, those that moved the weights by hand, those of a trial before training begins (does
the largest batch fit?). They are no loss, and neither is a batch skipped now and then: the rule
speaks when a line's gradients are lost at least as often as used. Of an optimizer that never steps
at all, never-stepped (GK107) tells.
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Trail
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close, Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site, variable

rule = Rule("GK102", "discarded-gradient", Severity.ERROR, __doc__)


@rule.at(Step)
def at_step(entry: Entry[Step]) -> Iterator[Finding]:
    for trail in entry.trails:
        if trail.systematic:
            yield _found(entry, trail, whole=not entry.spent)


@rule.at(Close)
def at_close(entry: Entry[Close]) -> Iterator[Finding]:
    """Lines that no second step has told of: few steps, or discards after the last one."""
    stepped = {
        name for owner in entry.optimizers.values() if owner.trains for name in owner.accounts
    } | {name for name, account in entry.before.items() if account.spenders}
    for trail in entry.trails:
        if trail.probe and _trained(entry, trail):
            continue
        if not trail.habitual or trail.told:
            continue
        if entry.all_cleared(trail) and entry.idle_owners_of(trail):
            continue  # never-stepped tells
        # Who stepped may be gone by now: built anew for every step.
        if trail.spent or (trail.made > 1 and stepped & set(trail.accounts)):
            yield _found(entry, trail, whole=not trail.spent)


def _trained(entry: Entry[Close], trail: Trail) -> bool:
    """All optimizers that the line reaches had other gradients to apply."""
    return all(owner.real for owner in entry.owners_of(trail))


def _found(entry: Entry[Step | Close], trail: Trail, *, whole: bool) -> Finding:
    zero = trail.zeroed_at or trail.site
    credited = trail.site.seen_from(zero)
    because = [Because("credited", trail.site, "this backward's gradient is thrown away")]
    then = ""
    if trail.stepped_at is not None:
        because.append(Because("stepped", trail.stepped_at, "before this step can apply it"))
        then = f", before the step on {trail.stepped_at.brief_from(zero)}"
    if whole:
        remedy = "zero_grad() right after step(), not between backward() and step()"
    else:
        remedy = "zero_grad() once for each step(), right after it"
    return rule.found(
        entry,
        f"clears the gradient of {credited} before any step() has applied it",
        site=zero,
        detail=f"account {_named(trail, entry, zero)}: credited on {trail.site.brief_from(zero)}, "
        f"zeroed on {zero.line}{then}",
        remedy=remedy,
        because=because,
    )


def _named(trail: Trail, entry: Entry[Step | Close], here: Site) -> str:
    if entry.owner is not None:
        return entry.owner.named_from(here)
    names = sorted(trail.owners) or trail.accounts
    return ", ".join(f"`{name}`" for name in dict.fromkeys(map(variable, names)))
