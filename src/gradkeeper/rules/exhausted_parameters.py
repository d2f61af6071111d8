"""A one-shot iterator of parameters is used a second time, and gives nothing.

`model.parameters()` is a generator; so are `filter(...)`, `map(...)` and `itertools.chain(...)`
of it. The first user, often the optimizer, reads it to its end. Whatever gets the same object
next, `clip_grad_norm_` or a loop that freezes parameters, works on nothing. Recent PyTorch warns
of an empty clip, and of nothing else.

```python bad
import torch

model = torch.nn.Linear(4, 1)
params = model.parameters()
optimizer = torch.optim.SGD(params, lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)  # <-
    optimizer.step()
```

To see it, print what `clip_grad_norm_` returns: always 0.

To fix it, make a list of it once.

```python good
import torch

model = torch.nn.Linear(4, 1)
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Exhaust
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK306", "exhausted-parameters", Severity.ERROR, __doc__)


@rule.at(Exhaust)
def check(entry: Entry[Exhaust]) -> Iterator[Finding]:
    yield rule.found(
        entry,
        f"{entry.event.use} works on nothing: its iterator of parameters is used up",
        detail="what model.parameters() returns can be read once, and was read before",
        remedy="list(...) around it where it is made, as in params = list(model.parameters())",
    )
