"""A trainable parameter receives gradients, and no optimizer owns it.

The loss reaches it, backward fills its `.grad`, and nobody ever applies or clears that. The part
stays as it was initialised: a head that was swapped after the optimizer was built, a second
module that was forgotten. Its growing gradient also inflates `clip_grad_norm_` over the whole
model, which shrinks everybody else's steps.

```python bad
import torch

encoder, decoder = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    encoder.zero_grad()
    decoder.zero_grad()
    loss = (decoder(encoder(x)) - x).square().mean()
    loss.backward()
    optimizer.step()  # <-
```

To see it, compare the decoder's weights before and after an epoch.

To fix it, give the optimizer all that is to be trained, or freeze what is not.

```python good
import torch

encoder, decoder = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4)
decoder.requires_grad_(False)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = (decoder(encoder(x)) - x).square().mean()
    loss.backward()
    optimizer.step()
```

Optimizing an input or an embedding through a fixed model is fine, and so is a network whose weights
were loaded from a file and that no optimizer was given: it judges the others.
"""

from collections.abc import Iterator

from gradkeeper.model.account import Account
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK105", "orphan-parameter", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    """From the second step on: another optimizer may be built meanwhile."""
    orphans = [account for account in entry.orphans if account.bypassed and not _served(account)]
    if not orphans or entry.owner is None or entry.owner.escaped:
        return
    here, line = entry.event.site, entry.spent[-1].site
    names = ", ".join(account.layers for account in orphans[:3])
    it, was = ("them", "they were") if names.count("`") > 2 else ("it", "it was")
    yield rule.found(
        entry,
        f"step() leaves {names} as {was}: no optimizer owns {it}",
        detail=f"account {names}: credited on {line.brief_from(here)}, never spent",
        remedy=f"give {names} to an optimizer, or freeze {it} by requires_grad_(False)",
        because=[
            Because("credited", line, f"fills the gradients of {names}"),
            Because("built", entry.owner.site, f"`{entry.owner.variable}` was built without {it}"),
        ],
    )


def _served(account: Account) -> bool:
    """Its weights came from elsewhere by a file, are moved by hand instead, or by code that was not
    seen."""
    loaded = account.loaded_at is not None and not account.put_back
    return loaded or account.moved or bool(account.spenders) or account.escaped
