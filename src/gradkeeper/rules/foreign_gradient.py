"""A step applies leftovers of another optimizer's loss together with its own.

In a GAN or an actor-critic, the generator's backward also fills the discriminator's `.grad`. If
the discriminator is zeroed only after its own step, these leftovers lie there until its next step
adds them, with the wrong sign, to its own gradient.

```python bad
import torch

actor, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    critic_loss = critic(actor(x).detach()).square().mean()
    critic_loss.backward()
    critic_opt.step()  # <-
    critic_opt.zero_grad()

    actor_loss = -critic(actor(x)).mean()
    actor_loss.backward()
    actor_opt.step()
    actor_opt.zero_grad()
```

To see it, print the norm of the critic's gradients right before `critic_loss.backward()`: not
zero.

To fix it, zero each network right before its own backward, or freeze the other one meanwhile.

```python good
import torch

actor, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
actor_opt = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    critic_loss = critic(actor(x).detach()).square().mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()

    actor_loss = -critic(actor(x)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
```

Where two optimizers own the same weights, what one of them has applied is left over for the other
as well: it would be applied twice, the second time to weights for which it was not computed.

One loss for two optimizers is fine, and so are losses that meet on purpose: in a trunk that trains
with two heads, or in a network whose own loss runs through the other optimizer's parameters too.
Where the order of calls cannot tell what is meant, the rule keeps silent.
"""

from collections.abc import Iterable, Iterator

from gradkeeper.model.account import Account, Lot
from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import BY_HAND, Optimizer
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK104", "foreign-gradient", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    own = [credit for credit in entry.spent if not credit.spent_by and not credit.by_hand]
    spent = [credit for credit in entry.spent if credit.spent_by and not _of_one(credit, own)]
    if entry.owner is None or not own:
        return
    foreign = next((credit for credit in spent if _leaked(credit, own, entry)), None)
    if foreign is not None:
        fills = Because(
            "foreign", foreign.site, f"also fills the gradients of `{entry.owner.variable}`"
        )
        yield _found(entry, entry.owner, own[0], foreign.spent_by, [fills])
        return
    for mine, lot in _applied_before(entry.before.values(), own, entry.owner):
        reasons = [
            Because("foreign", lot.site, "the gradient of another optimizer's loss"),
            Because("spent", lot.spent_at, "was applied to these weights here already"),
        ]
        yield _found(entry, entry.owner, mine, lot.owners, reasons)
        return


def _found(
    entry: Entry[Step],
    owner: Optimizer,
    mine: Credit,
    spent_by: frozenset[str],
    reasons: list[Because],
) -> Finding:
    here, foreign = entry.event.site, reasons[0].site
    others = ", ".join(f"`{variable(name)}`" for name in sorted(spent_by - {BY_HAND}))
    own_loss = "by the same line" if mine.site == foreign else f"of {mine.site.brief_from(here)}"
    return rule.found(
        entry,
        f"step() also applies the gradient of {foreign.seen_from(here)}, left over from the loss "
        f"of {others}",
        detail=f"account {owner.named_from(here)}: credited on {foreign.brief_from(here)} "
        f"beside its own loss {own_loss}, not zeroed in between",
        remedy=f"{owner.variable}.zero_grad() right before backward() on "
        f"{mine.site.seen_from(here)}",
        because=[*reasons, Because("credited", mine.site, "its own loss, added on top")],
    )


def _applied_before(
    accounts: Iterable[Account], own: list[Credit], owner: Optimizer
) -> Iterator[tuple[Credit, Lot]]:
    """What another optimizer has applied to the very weights that this loss came to after that.

    The two may share weights on purpose. But this gradient would then be applied twice, the second
    time to weights for which it was not computed.
    """
    for account in accounts:
        came = [credit for credit in own if credit.number in account.fresh]
        for lot in account.lots:
            others = lot.owners - {BY_HAND}
            if came and others and owner.name not in others and lot.site != came[0].site:
                yield came[0], lot


def _of_one(credit: Credit, own: list[Credit]) -> bool:
    """They are one loss's: of one line, unless that is a helper's which serves several losses."""
    return any(credit.site == mine.site and not credit.reaches_beyond(mine) for mine in own)


def _leaked(foreign: Credit, own: list[Credit], entry: Entry[Step]) -> bool:
    """Left over from a loss for which its optimizer had stepped before the own loss came.

    That alone may be meant. It is not where the own loss keeps away from the other optimizer's
    parameters, nor where that one had cleared its gradients too, and was done with the loss.
    """
    first, others = own[0], foreign.spent_by - {BY_HAND}
    if not others or not _before(foreign.spent_at, first):
        return False
    if any(others & credit.owners for credit in own):
        return _before(foreign.settled_at, first) and _covers(foreign, own, entry)
    return foreign.batch < first.batch or _covers(foreign, own, entry)


def _before(event: int | None, credit: Credit) -> bool:
    return event is not None and event < credit.number


def _covers(foreign: Credit, own: list[Credit], entry: Entry[Step]) -> bool:
    """The own loss reaches nothing more here. A trunk that trains with two heads is another thing:
    each loss has a head of its own, and the sum of both is meant for the trunk."""
    reached = {name for credit in own for name in credit.accounts if name in entry.before}
    return reached <= set(foreign.accounts)
