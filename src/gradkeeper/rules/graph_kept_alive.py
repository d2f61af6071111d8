"""A loss is summed up with its graph, so that the graph of every batch stays alive.

`total += loss` makes `total` a part of autograd: it leads back to every loss that was ever added to
it, and their graphs stay while it is there. What `backward()` needs is freed by it: memory grows
slowly; a loss that was never backpropagated keeps all of it. The weights are right in any case,
which is why `check` tells this only with `--select GK606`, and a run in the statement that
`--report` writes.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x in torch.randn(8, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss  # <-
print(total / 8)
```

To see it, print `total.requires_grad`, or watch the memory of the process.

To fix it, add the number: `loss.item()`, or `loss.detach()` where the device should not be waited
for.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x in torch.randn(8, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.detach()
print(total / 8)
```

`losses.append(loss)` keeps them as well, for as long as the list is there and is not cleared. A sum
that is made to call `backward()` on it is not meant, nor the losses of a single step, summed up or
in a list. Reading, gradkeeper knows `total += loss` and `losses.append(loss)` where the loss was
made, and not in a helper that is handed it (a meter's `update`); `total = total + loss` and moving
averages show when the program runs, in variables and not inside of objects.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Keep
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK606", "graph-kept-alive", Severity.INFO, __doc__)


@rule.at(Keep)
def check(entry: Entry[Keep]) -> Iterator[Finding]:
    event = entry.event
    if event.steps < 2:
        return
    because = [
        Because("credited", line, "is done with the graph that is kept") for line in event.lines
    ]
    yield rule.found(
        entry,
        f"adds a loss with its graph to `{event.total}`, which keeps the graph of every batch",
        detail=f"`{event.total}` leads back to losses of several steps whose backward is done: "
        "memory grows with each of them",
        remedy=f"add loss.item() to `{event.total}`, or loss.detach()",
        because=because,
    )
