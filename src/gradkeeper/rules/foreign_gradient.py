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

One loss for two optimizers is fine, and so are losses that meet on purpose: in a trunk that trains
with two heads, or in a network whose own loss runs through the other optimizer's parameters too.
Where the order of calls cannot tell what is meant, the rule keeps silent.
"""

from collections.abc import Iterator

from gradkeeper.model.credit import Credit
from gradkeeper.model.entry import Entry
from gradkeeper.model.events import Step
from gradkeeper.model.finding import Because, Finding, Severity
from gradkeeper.model.optimizer import BY_HAND
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import variable

rule = Rule("GK104", "foreign-gradient", Severity.ERROR, __doc__)


@rule.at(Step)
def check(entry: Entry[Step]) -> Iterator[Finding]:
    if len(entry.spent) < 2 or entry.owner is None:
        return
    own = [credit for credit in entry.spent if not credit.spent_by and not credit.by_hand]
    spent = [credit for credit in entry.spent if credit.spent_by and not _of_one(credit, own)]
    foreign = next((credit for credit in spent if own and _leaked(credit, own, entry)), None)
    if foreign is None:
        return
    here, owner = entry.event.site, entry.owner
    others = ", ".join(f"`{variable(name)}`" for name in sorted(foreign.spent_by))
    line, mine = foreign.site.seen_from(here), own[0].site
    own_loss = "by the same line" if mine == foreign.site else f"of {mine.brief_from(here)}"
    yield rule.found(
        entry,
        f"step() also applies the gradient of {line}, left over from the loss of {others}",
        detail=f"account {owner.named_from(here)}: credited on {foreign.site.brief_from(here)} "
        f"beside its own loss {own_loss}, not zeroed in between",
        remedy=f"{owner.variable}.zero_grad() right before backward() on {mine.seen_from(here)}",
        because=[
            Because("foreign", foreign.site, f"also fills the gradients of `{owner.variable}`"),
            Because("credited", mine, "its own loss, added on top"),
        ],
    )


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
