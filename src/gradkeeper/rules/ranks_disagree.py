"""The ranks stepped, skipped or filled their windows differently.

Each rank must take the same decision for each window: step or skip, on the same number of
micro-batches. A rank that skips alone (a NaN in its own loss, an exception it swallowed, less
data) leaves the others with other weights, or waiting for it for ever.

The engine compares the books of all ranks at each window's end, `torchrun … -m gradkeeper run`
when the job has ended; a single process has nothing to compare, so this rule has no example that
one process could run.

To see it, compare a weight on two ranks.

To fix it, take the decision together: `all_reduce` the flag, then act on it. The engine's windows
do.
"""

from collections import Counter
from collections.abc import Iterator

from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Digest
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK503", "ranks-disagree", Severity.ERROR, __doc__)


@rule.at(Digest)
def check(entry: Entry[Digest]) -> Iterator[Finding]:
    did = entry.event.ranks
    if len(set(did)) < 2:
        return
    usual = Counter(did).most_common(1)[0][0]
    odd = [f"rank {rank} {what}" for rank, what in enumerate(did) if what != usual]
    yield rule.found(
        entry,
        f"the ranks part here: {', '.join(odd[:4])}, the others {usual}",
        detail=f"{len(odd)} of {len(did)} ranks did otherwise in this window",
        remedy="let all ranks decide together whether to step",
    )
