"""Gradients of the old weights are applied to weights that were just loaded.

`load_state_dict()` replaces the weights and leaves `.grad` alone. If a backward ran before, its
gradient, taken at other weights, goes into the first step after loading.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(model.state_dict(), "start.pt")
for x in torch.randn(3, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    model.load_state_dict(torch.load("start.pt"))
    optimizer.step()  # <-
    optimizer.zero_grad()
```

To see it, print a gradient right after loading: it should be None.

To fix it, load before the backward, or zero after loading.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(model.state_dict(), "start.pt")
for x in torch.randn(3, 8, 4):
    model.load_state_dict(torch.load("start.pt"))
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

Weights put back from memory (first-order MAML, SAM, lookahead) are meant to meet the gradient.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK403", "gradient-outlives-load", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    old = next((credit for credit in entry.spent if credit.outlived), None)
    if old is None or old.outlived is None or entry.owner is None:
        return
    here = entry.event.site
    yield rule.found(
        entry,
        f"step() applies a gradient from before {old.outlived.seen_from(here)} loaded new weights",
        detail=f"account {entry.owner.named_from(here)}: credited on {old.site.brief_from(here)}, "
        f"weights loaded on {old.outlived.brief_from(here)}, spent on {here.line}",
        remedy=f"{entry.owner.variable}.zero_grad() after loading",
        because=[
            Because("credited", old.site, "taken at the old weights"),
            Because("loaded", old.outlived, "new weights come in"),
        ],
    )
