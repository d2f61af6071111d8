"""A loss computed in float16 autocast is sent back without a scaler.

float16 has no room for numbers below about 6e-8: small gradients become zero on their way back,
first in the early layers, and training stalls or learns only the large ones. bfloat16 has the
range of float32 and needs no scaler.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).float().square().mean()
    loss.backward()  # <-
    optimizer.step()
```

To see it, count the zeros in the gradients with and without a scaler.

To fix it, use bfloat16 where the device has it, or a `GradScaler`.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
```
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK307", "fp16-without-scaler", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if entry.escaped or entry.owner is None:
        return
    name = entry.owner.variable
    for credit in entry.spent:
        scaled_by_hand = credit.multiplier is not None and credit.multiplier > 1
        if credit.autocast != "float16" or credit.scaler or scaled_by_hand or credit.unseen:
            continue
        yield rule.found(
            entry,
            "backward() of a float16 loss without a scaler: small gradients become zero",
            site=credit.site,
            detail=f"account `{name}`: credited on {credit.site.line} in float16 autocast, "
            "no scaler multiplied the loss",
            remedy="torch.amp.GradScaler, or dtype=torch.bfloat16",
            because=[Because("stepped", entry.event.site, "applies what is left of them")],
        )
        return
