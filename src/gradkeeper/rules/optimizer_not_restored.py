"""Weights go on from a checkpoint, and the optimizer's state that lies beside them is not loaded.

A script that saves `optimizer.state_dict()` and loads only the model's weights begins every resumed
run with an empty memory: Adam's first steps are as large as at the very beginning, momentum is
gone, and what a schedule had done to the learning rate too. The loss jumps after each resume.

```python bad
import os

import torch


def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])  # <-
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, "last.pt")


train(4)
train(4)  # as if in another process, that goes on
```

To see it, print `optimizer.state` right after the checkpoint was loaded: it is empty.

To fix it, load what was saved.

```python good
import os

import torch


def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, "last.pt")


train(4)
train(4)
```

Only a file that the program itself writes is meant, and only weights that nobody had trained yet:
weights of another file are a warm start, those of the best epoch that are loaded at the end an
evaluation. Reading, gradkeeper is silent where any line may load the state of an optimizer.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Save
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import Optimizer
from gradkeeper.model.rule import Rule

rule = Rule("GK404", "optimizer-not-restored", Severity.WARNING, __doc__)


@rule.at(Save)
def check(entry: Entry[Save]) -> Iterator[Finding]:
    """Where a run that went on from a file writes the same one anew."""
    owners = entry.optimizers.values()
    if not entry.event.path or any(owner.remembers or _is_out_of_sight(owner) for owner in owners):
        return
    for owner in owners:
        if owner.stateful and owner.real:
            yield from _found(entry, owner)


def _is_out_of_sight(owner: Optimizer) -> bool:
    return owner.escaped or owner.kept or owner.given


def _found(entry: Entry[Save], owner: Optimizer) -> Iterator[Finding]:
    for name in owner.accounts:
        account = entry.before.get(name)
        if account is None or account.escaped or account.loaded_from != entry.event.path:
            continue
        loaded, here = account.loaded_at or entry.event.site, entry.event.site
        if account.written_at not in (None, here):
            continue  # another part of the same run wrote it: a stage of its own begins here
        yield rule.found(
            entry,
            f"load_state_dict() brings back the weights, and nothing the state of "
            f"{owner.named_from(loaded)}",
            site=loaded,
            detail=f"account {owner.named_from(loaded)}: saved on {here.brief_from(loaded)} "
            "together with the weights, never loaded",
            remedy=f"{owner.variable}.load_state_dict() beside it",
            because=[Because("saved", here, "writes both to the same file")],
        )
        return
