"""A gradient with NaN or inf in it reaches the weights.

One such step and the weights are NaN for good. The batch that caused it is long gone when the
loss shows it.

```python bad runtime
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(4, 8, 4)):
    optimizer.zero_grad()
    loss = model(x).square().mean() / (0.0 if i == 2 else 1.0)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()  # <-
```

To see it, look at the norm that `clip_grad_norm_` returns. `gradkeeper run` uses the clip norm and
the scaler's own check where they are there already; with `--check-finite` (or
`watch(check_finite=True)`) it looks at every gradient that is spent, and waits for the device.

To fix it, step only if the norm is finite, and zero the gradients either way.

```python good runtime
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(4, 8, 4)):
    optimizer.zero_grad()
    loss = model(x).square().mean() / (0.0 if i == 2 else 1.0)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm.isfinite():
        optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK305", "nonfinite-spent", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if not entry.spent or entry.event.finite is not False or entry.owner is None:
        return
    here, line = entry.event.site, entry.spent[-1].site
    yield rule.found(
        entry,
        f"step() applies a gradient of {line.seen_from(here)} that is NaN or inf",
        detail=f"account {entry.owner.named_from(here)}: credited on {line.brief_from(here)}, "
        f"not finite, spent on {here.line} all the same",
        remedy="step only if the norm is finite; zero_grad() either way",
        because=[Because("credited", line, "this backward made it")],
    )
