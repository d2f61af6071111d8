"""One account: a cohort of parameters whose gradients have always moved together.

Accounts are frozen; the functions here return what an account becomes. They know no event.
"""

from dataclasses import dataclass

from gradkeeper.model.credit import Waste
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.site import PART, Site, variable

# A window never waits on more backwards than this; older ones are let go, so that a loop
# which never steps can be watched for days in flat memory.
MOST_FRESH = 1024
MOST_PENDING = 64
MOST_LAYERS = 3
"""Named in a message."""


@dataclass(frozen=True)
class Lot:
    """Backwards of one line that were spent and still lie in .grad, and who spent them."""

    site: Site
    spent_at: Site
    owners: frozenset[str]
    count: int
    pending: tuple[int, ...] = ()
    """Those that other accounts still hold."""


@dataclass(frozen=True)
class ClipMark:
    """A clip since the account was last spent or zeroed, and what it found there."""

    site: Site
    fresh: int
    credited: int
    """Of all backwards that ever came to the account, so many came before."""
    scaled: bool
    vacant: bool
    """Nothing was there to clip, in any account of that call."""


@dataclass(frozen=True)
class Account:
    name: str
    parameters: tuple[str, ...] = ()
    size: int = 1
    trainable: bool = True
    owners: tuple[str, ...] = ()

    fresh: tuple[int, ...] = ()
    """Numbers of the backwards that wait here."""
    lots: tuple[Lot, ...] = ()
    wasted: tuple[Waste, ...] = ()
    """Thrown away since the last step."""
    scaler: str | None = None
    """Whose factor is still in the gradients."""
    clips: tuple[ClipMark, ...] = ()
    unsynced: int = 0
    reduces: int = 0
    adjusted: bool = False
    zeroed_at: Site | None = None
    """Where it was zeroed since the last step."""
    vacant: bool = True
    """.grad is None, as far as one can tell."""
    forwarded: bool = False
    zeroed_late: Site | None = None
    stirred: bool = False
    """A closure credited what waits here, and the step that called it has moved the weights."""
    added_to: Site | None = None
    """Where the closure's next evaluation credited it all the same, with nothing zeroed between."""
    credited: int = 0
    spenders: frozenset[str] = frozenset()
    moved: bool = False
    reset: bool = False
    """Weights were put back or set anew since an optimizer adopted it."""
    loaded_from: str = ""
    """The file that its weights came from, if nobody had trained them before."""
    loaded_at: Site | None = None
    written_at: Site | None = None
    """The line that had written that file in the same run."""
    put_back: bool = False
    """What was loaded were its own weights, saved by that line."""
    escaped: bool = False
    """It went to code that was not seen, which may have done anything to it."""
    kept: bool = False
    """Such code has it for good, and may move it whenever it runs."""
    bypassed: int = 0
    """Steps that spent a loss which reaches this account, while nobody owns it."""

    @property
    def used(self) -> bool:
        """Some optimizer has stepped with it, or its weights were moved by hand."""
        return self.moved or bool(self.spenders)

    @property
    def layers(self) -> str:
        """What a person would look for: the layers that hold it, where their paths are known."""
        paths = sorted({_layer(parameter) for parameter in self.parameters})
        known = [path for path in paths if path][:MOST_LAYERS] or [variable(self.name)]
        more = len(paths) > len(known) or 0 < len(self.parameters) < self.size
        return ", ".join(f"`{path}`" for path in known) + (" and others" if more else "")

    @property
    def label(self) -> str:
        """Its name, or the layers of a part that has none of its own."""
        return self.layers if PART in self.name else f"`{variable(self.name)}`"

    def stale_for(self, owner: str) -> tuple[Lot, ...]:
        return tuple(lot for lot in self.lots if owner in lot.owners)


def _layer(parameter: str) -> str:
    """`net.fc2` of `net.fc2.weight`; a parameter with a name of its own keeps it."""
    module, _, own = parameter.rpartition(".")
    if own in ("weight", "bias") or not module:
        return module
    return parameter


def credited(account: Account, number: int, *, scaler: str | None, synced: bool | None) -> Account:
    unsynced = account.unsynced
    if synced is not None:
        unsynced = 0 if synced else unsynced + 1
    return replace(
        account,
        fresh=(*account.fresh, number)[-MOST_FRESH:],
        scaler=scaler or account.scaler,
        unsynced=unsynced,
        reduces=account.reduces + (synced is True),
        vacant=False,
        forwarded=False,
        zeroed_late=None,
        credited=account.credited + 1,
    )


def spent(account: Account, owner: str, site: Site, news: tuple[Lot, ...]) -> Account:
    """The account after `owner` spent it; `news` are the lots that its fresh backwards make."""
    return replace(
        account,
        fresh=(),
        lots=_merged((*account.lots, *news), owner, site),
        wasted=(),
        clips=(),
        unsynced=0,
        reduces=0,
        adjusted=False,
        stirred=False,
        added_to=None,
        zeroed_at=None,
        spenders=account.spenders | {owner},
    )


def _merged(lots: tuple[Lot, ...], owner: str, site: Site) -> tuple[Lot, ...]:
    if len(lots) == 1 and owner in lots[0].owners:
        return lots
    merged: dict[tuple[Site, frozenset[str]], Lot] = {}
    for lot in lots:
        owners = lot.owners | {owner}
        same = merged.get((lot.site, owners))
        merged[lot.site, owners] = Lot(
            site=lot.site,
            spent_at=lot.spent_at if owner in lot.owners else site,
            owners=owners,
            count=lot.count + (same.count if same else 0),
            pending=((same.pending if same else ()) + lot.pending)[-MOST_PENDING:],
        )
    return tuple(merged.values())


def zeroed(account: Account, site: Site, *, to_none: bool) -> Account:
    return replace(
        account,
        fresh=(),
        lots=(),
        scaler=None,
        clips=(),
        unsynced=0,
        reduces=0,
        adjusted=False,
        stirred=False,
        added_to=None,
        zeroed_at=site,
        vacant=to_none,
        zeroed_late=site if account.forwarded and not account.fresh else None,
    )


def clipped(account: Account, site: Site, *, vacant: bool, scaled: bool) -> Account:
    mark = ClipMark(
        site=site,
        fresh=len(account.fresh),
        credited=account.credited,
        scaled=scaled,
        vacant=vacant,
    )
    # As many as backwards: the rules ask whether there was one for each.
    return replace(account, clips=(*account.clips, mark)[-MOST_FRESH:])
