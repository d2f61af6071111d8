"""The law, against an oracle that only counts: every gradient reaches the weights exactly once."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, assume, example, find, given, settings
from hypothesis import strategies as st

from gradkeeper.model import Event, Site, account, audit, books, spending
from gradkeeper.model.events import Adopt, Again, Backward, Batch, Close, Step, Zero
from gradkeeper.model.fast_replace import replace
from gradkeeper.model.rule import Rule
from gradkeeper.rules import (
    ALL,
    discarded_gradient,
    dropped_tail,
    never_stepped,
    stale_gradient,
    zero_scope_mismatch,
)

OWNERS = {"one": ("trunk", "left"), "two": ("trunk", "right"), "three": ("far",)}
ACCOUNTS = ("trunk", "left", "right", "far")
CONSERVATION = (
    stale_gradient.rule,
    zero_scope_mismatch.rule,
    discarded_gradient.rule,
    never_stepped.rule,
    dropped_tail.rule,
)
END = Site("loop.py", 99)
ROUNDS = 12
"""So many are written down before the watcher only counts them."""

some_accounts = st.sets(st.sampled_from(ACCOUNTS), min_size=1).map(lambda s: tuple(sorted(s)))
backwards = st.builds(
    lambda line, accounts: Backward(site=Site("loop.py", line), accounts=accounts),
    st.integers(1, 3),
    some_accounts,
)
steps = st.builds(
    lambda owner, taken: Step(site=Site("loop.py", 10), optimizer=owner, taken=taken),
    st.sampled_from(sorted(OWNERS)),
    st.sampled_from([True, True, True, False]),
)
zeros = st.builds(lambda accounts: Zero(site=Site("loop.py", 20), accounts=accounts), some_accounts)
whole_zeros = st.just(Zero(site=Site("loop.py", 20), accounts=ACCOUNTS))
tapes = st.lists(st.one_of(backwards, steps, zeros, whole_zeros), max_size=14)


@dataclass
class Oracle:
    """Counts what each step applies, knowing nothing of accounts that fold, trails or lots."""

    lying: list[tuple[int, str]] = field(default_factory=list)
    line: dict[int, int] = field(default_factory=dict)
    reached: dict[int, set[str]] = field(default_factory=dict)
    applied: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    waived: set[int] = field(default_factory=set)
    stepped: set[str] = field(default_factory=set)
    trained: set[str] = field(default_factory=set)
    zeroed: set[str] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    """Backwards that came when one of their optimizers had stepped already."""

    def see(self, number: int, event: Event) -> None:
        match event:
            case Backward():
                self.line[number] = event.site.line
                self.reached[number] = set(event.accounts)
                if self.owners(event.accounts) & self.stepped:
                    self.late.add(number)
                self.lying += [(number, name) for name in event.accounts]
            case Step():
                self.step(event)
            case Zero():
                self.zeroed.update(event.accounts)
                self.lying = [(n, name) for n, name in self.lying if name not in event.accounts]

    def step(self, event: Step) -> None:
        self.stepped.add(event.optimizer)
        for number, name in self.lying:
            if name not in OWNERS[event.optimizer]:
                continue
            if event.taken:
                self.trained.add(event.optimizer)
                self.applied[number, name, event.optimizer] += 1
            elif not self.applied_at(number, name):
                self.waived.add(number)

    def applied_at(self, number: int, name: str) -> bool:
        return any(self.applied[number, name, owner] for owner in OWNERS)

    @property
    def twice(self) -> bool:
        return any(count > 1 for count in self.applied.values())

    def lost(self, line: int) -> list[int]:
        """Backwards of a line that nobody applied and that no longer lie anywhere."""
        used = {number for number, _, _ in self.applied} | {number for number, _ in self.lying}
        gone = set(self.line) - used - self.waived
        return [number for number in gone if self.line[number] == line]

    def used(self, line: int) -> int:
        return len({n for n, _, _ in self.applied if self.line[n] == line})

    def of(self, line: int) -> set[int]:
        return {number for number, at in self.line.items() if at == line}

    def made(self, line: int) -> int:
        return len(self.of(line))

    @staticmethod
    def owners(accounts: Iterable[str]) -> set[str]:
        return {owner for owner, own in OWNERS.items() if set(accounts) & set(own)}

    def in_vain(self, line: int) -> bool:
        """A habit: in a loop, lost at least as often as used; or again and again with no step."""
        lost, used = len(self.lost(line)), self.used(line)
        if not lost or lost < used or self.made(line) < 2:
            return False
        reached = {name for number in self.of(line) for name in self.reached[number]}
        owners = self.owners(reached)
        if not used and not self.late & self.of(line) and owners <= self.trained:
            return False  # a trial before training
        return bool(owners & self.stepped) or (not used and lost >= 3)

    @property
    def left_out(self) -> bool:
        """An optimizer never stepped, though gradients came for it and were zeroed, while others
        applied their part of the same backwards."""
        waiting = Counter(name for reached in self.reached.values() for name in reached)
        applied = {name for _, name, _ in self.applied}
        return any(
            name in self.zeroed and name not in applied and waiting[name] >= 3
            for owner in OWNERS.keys() - self.stepped
            for name in OWNERS[owner]
        )

    @property
    def pending(self) -> int:
        applied = {number for number, _, _ in self.applied}
        return len({n for n, _ in self.lying} - applied - self.waived)


def watch(tape: Iterable[Event]) -> Oracle:
    oracle = Oracle()
    for number, event in enumerate(tape):
        oracle.see(number, event)
    return oracle


def found(tape: list[Event], rules: Iterable[Rule] = CONSERVATION) -> set[tuple[str, Site]]:
    """What the rules find, and where, over the tape with its owners and its end."""
    adopts = [
        Adopt(site=Site("loop.py", 50 + place), optimizer=owner, accounts=own)
        for place, (owner, own) in enumerate(OWNERS.items())
    ]
    return {(one.rule, one.site) for one in audit([*adopts, *tape, Close(site=END)], rules)}


def spoken(tape: list[Event]) -> set[str]:
    return {rule for rule, _ in found(tape)}


def contradiction(tape: list[Event]) -> str | None:
    """Where the books and the count disagree, if they do."""
    oracle, rules = watch(tape), spoken(tape)
    nothing_lost = not any(oracle.lost(line) for line in (1, 2, 3))
    if oracle.twice != bool(rules & {"GK101", "GK602"}):
        return f"spent twice: {oracle.twice}, the rules say {rules}"
    excused = {"GK101", "GK602"} | ({"GK107"} if oracle.left_out else set())
    if nothing_lost and not oracle.pending and rules - excused:
        return f"nothing was lost, yet {rules}"
    if any(oracle.in_vain(line) for line in (1, 2, 3)) and not rules & {"GK102", "GK107"}:
        return f"a backward in vain, and only {rules} spoke"
    return None


@settings(max_examples=3000, deadline=None)
@given(tapes)
def test_the_rules_are_silent_if_and_only_if_the_count_says_all_went_well(
    tape: list[Event],
) -> None:
    assert contradiction(tape) is None


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(tapes)
def test_a_tape_on_which_all_is_spent_once_raises_no_alarm(tape: list[Event]) -> None:
    oracle = watch(tape)
    assume(not oracle.twice and not oracle.pending)
    assume(not any(oracle.lost(line) for line in (1, 2, 3)) and not oracle.left_out)

    assert spoken(tape) == set()


batches = st.just(Batch(site=Site("loop.py", 30), source="loader"))
rounds = st.lists(st.one_of(batches, backwards, steps, zeros, whole_zeros), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(tapes, rounds, st.integers(1, 40), tapes)
@example(
    # Gradients pile up on one account, and are zeroed on another, round by round.
    start=[],
    round_=[
        Backward(site=Site("loop.py", 1), accounts=("right",)),
        Zero(site=Site("loop.py", 20), accounts=("trunk",)),
        Backward(site=Site("loop.py", 1), accounts=("trunk",)),
    ],
    times=4,
    rest=[Step(site=Site("loop.py", 10), optimizer="two")],
)
def test_a_folded_tape_is_judged_as_the_unfolded_one(
    start: list[Event], round_: list[Event], times: int, rest: list[Event]
) -> None:
    again = Again(site=round_[-1].site, length=len(round_), times=times)

    folded = found([*start, *(ROUNDS * round_), again, *rest], ALL)

    assert folded == found([*start, *((ROUNDS + times) * round_), *rest], ALL)


def keep_fresh(patch: pytest.MonkeyPatch) -> None:
    """A step forgets to take its gradients out of the account."""
    spent = account.spent
    patch.setattr(
        account,
        "spent",
        lambda one, *rest: replace(spent(one, *rest), fresh=one.fresh),
    )
    patch.setattr(spending, "_release", lambda *_: None)


def keep_lots(patch: pytest.MonkeyPatch) -> None:
    """A zero leaves what was spent lying there."""
    zeroed = account.zeroed
    patch.setattr(
        account,
        "zeroed",
        lambda one, *rest, **more: replace(zeroed(one, *rest, **more), lots=one.lots),
    )


def forget_losses(patch: pytest.MonkeyPatch) -> None:
    """Nobody notes what a zero throws away."""
    patch.setattr(books.Books, "waste", lambda *_: ())


def forget_shares(patch: pytest.MonkeyPatch) -> None:
    """One share of a backward thrown away counts as the whole."""
    let_go = books.Books.let_go

    def hasty(self: books.Books, number: int) -> object:
        credit = self.credits.get(number)
        if credit is None:
            return None
        self.credits[number] = replace(credit, held=1)
        return let_go(self, number)

    patch.setattr(books.Books, "let_go", hasty)


def forget_owners(patch: pytest.MonkeyPatch) -> None:
    """Whoever spent it before, a lot belongs to everybody."""
    patch.setattr(account.Account, "stale_for", lambda one, owner: one.lots)


@pytest.mark.parametrize(
    "sabotage", [keep_fresh, keep_lots, forget_losses, forget_shares, forget_owners]
)
def test_a_ledger_broken_on_purpose_is_caught_by_a_handful_of_events(
    sabotage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)

    def caught(tape: list[Event]) -> bool:
        try:
            return contradiction(tape) is not None
        except KeyError:
            return True

    search = settings(max_examples=5000, deadline=None, database=None)
    smallest = find(tapes, caught, settings=search, random=Random(0))

    assert 1 <= len(smallest) <= 6
