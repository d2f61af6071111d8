"""A loader is told where to go on when its iterator is already there, and the data starts over.

`StatefulDataLoader.load_state_dict()` concerns the iterator that is made next. One that `iter()` or
a running loop has made before knows nothing of it and begins with the first batch: after every
resume the first part of the data is trained on again, and the rest less often.

```python bad
import torch
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

data = TensorDataset(torch.randn(32, 4))
interrupted = StatefulDataLoader(data, batch_size=4)
next(iter(interrupted))
state = interrupted.state_dict()

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = StatefulDataLoader(data, batch_size=4)
batches = iter(loader)
loader.load_state_dict(state)  # <-
for (x,) in batches:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
```

To see it, print the first batch after a resume: it is the first of all.

To fix it, load the state first, and then begin to iterate.

```python good
import torch
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

data = TensorDataset(torch.randn(32, 4))
interrupted = StatefulDataLoader(data, batch_size=4)
next(iter(interrupted))
state = interrupted.state_dict()

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = StatefulDataLoader(data, batch_size=4)
loader.load_state_dict(state)
for (x,) in loader:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
```

An iterator from before that nobody asks for a batch any more does no harm.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Overrun
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK405", "data-starts-over", Severity.WARNING, __doc__)


@rule.at(Overrun)
def check(entry: Entry[Overrun]) -> Iterator[Finding]:
    if entry.resumed is None:
        return
    here, name = entry.event.site, variable(entry.event.loader)
    yield rule.found(
        entry,
        f"load_state_dict() comes too late: an iterator of `{name}` is there, and starts over",
        site=entry.resumed,
        detail=f"the state concerns the iterator of `{name}` that is made next, and batches come "
        "from one that was made before",
        remedy=f"{name}.load_state_dict() before iter({name})",
        because=[Because("fetched", here, "takes a batch from the old iterator")],
    )
