"""An optimizer steps, and has never had a gradient to apply.

Its parameters' `.grad` has been None at every step so far, so nothing moves. Typical causes: the
optimizer was built over the parameters of another model (a copy, or the model before `.to()` made
new ones), the gradients were taken with `torch.autograd.grad`, which returns them and fills no
`.grad`, or a checkpoint was loaded and stepped: `state_dict()` holds no gradients.

```python bad
import copy

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()  # <-
```

To see it, compare a weight before and after a step.

To fix it, build the optimizer over the parameters that the loss reaches, after the model has its
final shape.

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

A head that some batches leave alone is no fault, and neither is an optimizer whose work is done
inside backward.
"""

from collections.abc import Iterator, Mapping

from gradkeeper.model.account import Account
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Close, Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

rule = Rule("GK103", "empty-step", Severity.WARNING, __doc__)


@rule.at(Step)
def at_step(entry: Entry[Step]) -> Iterator[Finding]:
    owner = entry.owner
    if owner is None or not entry.empty or owner.real or entry.wasted:
        return
    if entry.escaped or _served_otherwise(owner, entry.before):
        return
    if entry.unseen and not _wiped_whole(entry):
        return
    if owner.restored_at and not _zeroed_on_purpose(entry):
        yield _after_load(entry, owner)
    elif owner.empty and entry.idle:
        zeroed_at = _zeroed_before(entry)
        if zeroed_at is None:
            yield _found(entry, owner)
        else:
            yield _wiped(entry, owner, zeroed_at)


@rule.at(Close)
def at_close(entry: Entry[Close]) -> Iterator[Finding]:
    """Where others did step, a head may just have been inactive: judged at the end."""
    for owner in entry.optimizers.values():
        if entry.idle or owner.real or owner.skipped or owner.empty < 2:
            continue
        if entry.unseen or _out_of_sight(entry, owner) or entry.works_elsewhere(owner):
            continue
        if _lost(entry, owner):
            continue
        if not _served_otherwise(owner, entry.before):
            yield _found(entry, owner)


def _out_of_sight(entry: Entry[Close], owner: Optimizer) -> bool:
    return owner.escaped or any(entry.before[name].escaped for name in owner.accounts)


def _lost(entry: Entry[Close], owner: Optimizer) -> bool:
    """Gradients did reach it, and were thrown away: that is another rule's to tell."""
    lost = entry.thrown_away
    return any(entry.before[name].wasted or name in lost for name in owner.accounts)


def _zeroed_on_purpose(entry: Entry[Step]) -> bool:
    """`zero_grad(); step()` before the loop: it quiets a scheduler, and expects no gradient."""
    return all(account.zeroed_at for account in entry.before.values())


def _zeroed_before(entry: Entry[Step]) -> Site | None:
    """Gradients did come, and were zeroed where that may be meant: inside a closure, say."""
    accounts = [
        account for account in entry.before.values() if account.credited and account.zeroed_at
    ]
    return accounts[0].zeroed_at if accounts else None


def _wiped_whole(entry: Entry[Step]) -> bool:
    """All that it owns was credited and then zeroed: whatever else the loss reaches."""
    return all(account.credited and account.zeroed_at for account in entry.before.values())


def _served_otherwise(owner: Optimizer, accounts: Mapping[str, Account]) -> bool:
    own = [accounts[name] for name in owner.accounts]
    return any(account.moved or account.spenders - {owner.name} for account in own)


def _found(entry: Entry[Step | Close], owner: Optimizer) -> Finding:
    here = owner.stepped_at or entry.event.site
    return rule.found(
        entry,
        f"step() has nothing to apply: no gradient has reached the parameters of "
        f"{owner.named_from(here)}",
        site=here,
        detail=f"account {owner.named_from(here)}: built on {owner.site.brief_from(here)}, "
        f"stepped on {here.line}, never credited",
        remedy="build the optimizer over the parameters that the loss is computed from",
        because=[Because("built", owner.site, f"`{owner.variable}` was built here")],
    )


def _wiped(entry: Entry[Step], owner: Optimizer, zeroed_at: Site) -> Finding:
    here = entry.event.site
    return rule.found(
        entry,
        f"step() has nothing to apply: {zeroed_at.seen_from(here)} zeroes the gradients first",
        detail=f"account {owner.named_from(here)}: zeroed on {zeroed_at.brief_from(here)}, "
        "no backward since",
        remedy="zero_grad() before backward(), not between backward() and step()",
        because=[Because("zeroed", zeroed_at, "the gradients are zeroed here")],
    )


def _after_load(entry: Entry[Step], owner: Optimizer) -> Finding:
    here = entry.event.site
    loaded = owner.restored_at or owner.site
    return rule.found(
        entry,
        f"step() has nothing to apply: what {loaded.seen_from(here)} loaded holds no gradients",
        detail=f"account {owner.named_from(here)}: loaded on {loaded.brief_from(here)}, "
        "no backward since",
        remedy="save the pending gradients on purpose, or save after step()",
        because=[Because("loaded", loaded, "state_dict() does not hold .grad")],
    )
