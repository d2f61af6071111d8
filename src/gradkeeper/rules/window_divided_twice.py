"""Each loss is divided by the length of the window, and then by a framework once more.

Accelerate's `accelerator.backward()`, Lightning with `accumulate_grad_batches`, transformers'
Trainer and DeepSpeed's `engine.backward()` divide every loss by the number of batches between two
steps. A loop that does so by hand as well applies 1/N of the gradient: a learning rate N times too
small with SGD, and a clipping threshold that never bites with anything else.

```python bad
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def backward(loss):
    loss = loss / 4  # as a framework does, in windows of four
    loss.backward()  # <-


for i, x in enumerate(torch.randn(12, 8, 4)):
    backward(model(x).square().mean() / 4)
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

To see it, compare the gradient before the step with that of all the window's rows in one batch.

To fix it, hand the loss over as it is.

```python good
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def backward(loss):
    loss = loss / 4  # as a framework does, in windows of four
    loss.backward()


for i, x in enumerate(torch.randn(12, 8, 4)):
    backward(model(x).square().mean())
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
```

Four losses of one batch that are summed and divided by four are a mean, and no second division;
nor is a loss that is halved in windows of two.
Reading, gradkeeper knows what Accelerate divides by; what Lightning, transformers and DeepSpeed do
shows when the program runs.
"""

from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK207", "window-divided-twice", Severity.WARNING, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    """From the second window on, where as many losses come together as they were divided by.

    A framework may fetch the batches of a window at once: what counts is the backwards.
    """
    window, owner = entry.window, entry.owner
    if window is None or owner is None or owner.window is None or entry.adjusted:
        return
    if (window.site, window.size) != (owner.window.site, owner.window.size):
        return
    fill = [credit for credit in entry.spent if credit.site == window.site]
    if any(credit.twice != len(fill) for credit in fill):
        return
    line, here = window.site, entry.event.site
    yield rule.found(
        entry,
        "backward() takes a loss that was divided by the number of batches in the window, and then "
        "again",
        site=line,
        detail=f"account {owner.named_from(line)}: credited on {line.line} by N batches, each loss "
        f"with weight 1/N², spent on {here.brief_from(line)}",
        remedy="divide by N in one place: frameworks that count windows do it themselves",
        because=[Because("stepped", here, "applies 1/N of the window's gradient")],
    )
