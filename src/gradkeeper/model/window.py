"""A window: what one step spends together, seen as micro-batches of one line's loss."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradkeeper.model.credit import Credit
from gradkeeper.model.site import Site


@dataclass(frozen=True, slots=True)
class Window:
    site: Site
    """The line whose backward calls fill it."""
    size: int
    """From how many batches."""
    divisor: int | None
    """By what each loss was divided, where that is known, the same for all, and whole."""
    first_epoch: int
    last_epoch: int
    fetched: int
    """So many batches had been fetched when it was spent, from where its own come."""
    barren: int
    """Of these, those since the window before that gave it nothing."""


def window_of(
    credits: Iterable[Credit], fetched: Mapping[str, int], last: Window | None
) -> Window | None:
    """The window these backwards make; of several losses, the one with the most batches, and
    rather one that no step has spent before: leftovers of another optimizer's fill no window.

    Accounts hold backwards in different orders: what came first counts first.
    """
    by_site: dict[Site, list[Credit]] = {}
    for credit in sorted(credits, key=lambda credit: credit.number):
        if not credit.by_hand:
            by_site.setdefault(credit.site, []).append(credit)
    if not by_site:
        return None
    own = [_own_of(fill) for fill in by_site.values() if not all(c.spent_by for c in fill)]
    fill = max(own or by_site.values(), key=batches_in)
    size = batches_in(fill)
    so_far = fetched.get(fill[0].source, 0)
    before = last.fetched if last and last.site == fill[0].site else 0
    return Window(
        site=fill[0].site,
        size=size,
        divisor=_divisor(fill),
        first_epoch=fill[0].epoch,
        last_epoch=fill[-1].epoch,
        fetched=so_far,
        barren=so_far - before - size,
    )


def _own_of(fill: list[Credit]) -> list[Credit]:
    """Without what another optimizer left over: of one line with the own loss, where a helper has
    the backward of all losses."""
    own = [credit for credit in fill if not credit.spent_by]
    if len(own) == len(fill):
        return fill
    return [c for c in fill if not c.spent_by or not any(map(c.reaches_beyond, own))]


def batches_in(credits: list[Credit]) -> int:
    if len(credits) == 1:
        return 1
    return len({credit.batch for credit in credits})


def _divisor(credits: list[Credit]) -> int | None:
    multiplier = credits[0].multiplier
    if not multiplier or any(credit.multiplier != multiplier for credit in credits):
        return None
    whole = round(1 / multiplier)
    if whole < 1 or abs(whole * multiplier - 1) > 1e-6:
        return None
    return whole
