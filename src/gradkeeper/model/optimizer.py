"""Who spends: optimizers, and the scalers and schedulers that go with them."""

from dataclasses import dataclass

from gradkeeper.model.site import Site, variable
from gradkeeper.model.window import Window

BY_HAND = "by hand"
"""The owner in whose name weights are updated without an optimizer."""


@dataclass(frozen=True)
class TickMark:
    site: Site
    batch: int
    epoch: int


@dataclass(frozen=True)
class Optimizer:
    name: str
    site: Site
    accounts: tuple[str, ...] = ()
    stateful: bool = True
    since: int = 0
    """How many steps all optimizers together had taken when it was built."""
    real: int = 0
    """Steps that had something to spend."""
    empty: int = 0
    skipped: int = 0
    stepped_at: Site | None = None
    window: Window | None = None
    """What its previous step spent."""
    ticks: tuple[TickMark, ...] = ()
    """Scheduler ticks since its last step, while gradients were pending."""
    early_ticks: tuple[Site, ...] = ()
    """Lines of scheduler ticks before its first step."""
    namesake: bool = False
    """Another optimizer's variable has the same name."""
    rebuilds: int = 0
    """How often it was built anew, at the same line, after a step or two."""
    heir: bool = False
    """One that the same line built before, over the same parameters, has stepped."""
    escaped: bool = False
    """It went to code that was not seen, which may have stepped it, or given it parameters."""
    kept: bool = False
    """Code that was not seen has it for good, and may step it whenever it runs."""
    given: bool = False
    """It came from code that was not seen, and went to none."""
    remembers: bool = False
    """Its own state was loaded."""
    restored_at: Site | None = None
    """Where its weights were loaded from disk, if no gradient has come since."""

    @property
    def steps(self) -> int:
        return self.real + self.empty + self.skipped

    @property
    def trains(self) -> bool:
        """It has stepped, or the one in whose place it came."""
        return self.heir or self.steps > 0

    @property
    def variable(self) -> str:
        return variable(self.name)

    def named_from(self, here: Site) -> str:
        """By its variable; where two share that, by the line that built it as well."""
        if not self.namesake:
            return f"`{self.variable}`"
        return f"`{self.variable}` of {self.site.seen_from(here)}"


@dataclass(frozen=True)
class Scaler:
    name: str
    rounds: int = 0
    """How often it was updated."""
    updated_at: Site | None = None
    stepped: frozenset[str] = frozenset()
    """Optimizers it stepped since its last update."""
