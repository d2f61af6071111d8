"""Gradients that a checkpoint brought back are zeroed before they are applied.

Somebody took care to save pending gradients and to put them back; then the loop's usual
`zero_grad()` at the top throws them away, and the resumed run differs from the one that was
interrupted.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.randn(4, 8, 4)
model(batches[0]).square().mean().div(2).backward()
grads = {name: p.grad for name, p in model.named_parameters()}
torch.save({"model": model.state_dict(), "grads": grads}, "pending.pt")

saved = torch.load("pending.pt")
model.load_state_dict(saved["model"])
for name, p in model.named_parameters():
    p.grad = saved["grads"][name]
optimizer.zero_grad()  # <-
model(batches[1]).square().mean().div(2).backward()
optimizer.step()
```

To see it, compare the weights after the first step with those of an uninterrupted run.

To fix it, go on in the window where the checkpoint left it.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.randn(4, 8, 4)
model(batches[0]).square().mean().div(2).backward()
grads = {name: p.grad for name, p in model.named_parameters()}
torch.save({"model": model.state_dict(), "grads": grads}, "pending.pt")

saved = torch.load("pending.pt")
model.load_state_dict(saved["model"])
for name, p in model.named_parameters():
    p.grad = saved["grads"][name]
model(batches[1]).square().mean().div(2).backward()
optimizer.step()
optimizer.zero_grad()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Zero
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK402", "pending-zeroed-on-resume", Severity.ERROR, __doc__)


@rule.at(Zero)
def check(entry: Entry[Zero]) -> Iterator[Finding]:
    restored = [
        credit for credit in entry.pending.values() if credit.restored and not credit.spent_by
    ]
    if not restored:
        return
    here, loaded = entry.event.site, restored[0].site
    yield rule.found(
        entry,
        f"clears the gradients that {loaded.seen_from(here)} restored, before any step() has "
        "applied them",
        detail=f"account `{variable(restored[0].accounts[0])}`: restored on "
        f"{loaded.brief_from(here)}, zeroed on {here.line}, never spent",
        remedy="zero_grad() after the first step(), not before it",
        because=[Because("loaded", restored[0].site, "pending gradients come back here")],
    )
