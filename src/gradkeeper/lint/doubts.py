"""Whether a run's word counts: what makes a finding doubtful, by rule.

Some rules ask for a closed world, in which everything was seen that could have done the missing
thing. Others are misled by a loss that was not followed, which shows in the tape itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gradkeeper.lint.closed_world import CLOSED
from gradkeeper.lint.run import Run
from gradkeeper.model import events as ev
from gradkeeper.model.finding import Finding

WITHOUT_OWNERS = frozenset({"GK301", "GK303", "GK306", "GK601", "GK604"})
"""Rules that don't depend on who owns what, or on what unseen code does to gradients."""


def may_speak(run: Run, finding: Finding) -> bool:
    """Whether doubts about a run leave a rule anything to say of it."""
    rule = finding.rule
    if run.openings & CLOSED.get(rule, frozenset()) and not _names_what_cleared_it(finding):
        return False
    if rule == "GK102" and (_loses_a_loss(run) or _loses_this_loss(run, finding)):
        return False  # perhaps it was that loss which seems to be thrown away
    if rule == "GK104" and "unsure" in run.openings and finding.where("spent"):
        return False  # perhaps no weights belong to both of them
    if rule == "GK103" and _only_draws_a_schedule(run.tape, finding):
        return False
    if rule == "GK107" and (run.passes_by_a_step or (run.partial and not run.steps)):
        return False  # more rounds, other numbers or other callers may come to it
    return not run.doubts or rule in WITHOUT_OWNERS


def _names_what_cleared_it(finding: Finding) -> bool:
    """A step has nothing to apply since something was zeroed: that is not argued from absence."""
    cleared = any(reason.role == "zeroed" for reason in finding.because)
    return finding.rule == "GK103" and cleared


Owned = dict[str, set[str]]
"""By optimizer: the accounts that it owns."""


def _noting(tape: Iterable[ev.Event], owned: Owned) -> Iterator[ev.Event]:
    """The events of a tape; who owns what by then is noted on the way."""
    for event in tape:
        if isinstance(event, ev.Adopt):
            owned.setdefault(event.optimizer, set()).update(event.accounts)
        yield event


def _is_all_seen(run: Run) -> bool:
    losses = (event for event in run.tape if isinstance(event, ev.Backward))
    return not (run.openings or run.unseen or any(loss.unseen for loss in losses))


def _loses_a_loss(run: Run) -> bool:
    """One of several optimizers steps, and no loss reaches it: its loss was not followed,
    unless all there is was seen."""
    if _is_all_seen(run):
        return False
    losses = [event for event in run.tape if isinstance(event, ev.Backward)]
    reached = {account for loss in losses for account in loss.accounts}
    owned: Owned = {}
    stepped: set[str] = set()
    for event in _noting(run.tape, owned):
        if isinstance(event, ev.Step):
            stepped.add(event.optimizer)
    return len(stepped) > 1 and any(not owned.get(step, set()) & reached for step in stepped)


def _loses_this_loss(run: Run, finding: Finding) -> bool:
    """An optimizer steps between the backward that a finding is about and what clears it, and
    nothing is seen to reach it: this loss may do so all the same. Not if it has a loss of its
    own, which comes too late for each of its steps, or a forward of its own, where all was seen."""
    tape = run.tape
    too_early = _steps_too_early(tape)
    all_seen = _is_all_seen(run)
    credited = {reason.site for reason in finding.because if reason.role == "credited"}
    owned: Owned = {}
    filled: set[str] = set()
    reached: set[str] = set()
    used: set[str] = set()
    waiting = empty = False
    for event in _noting(tape, owned):
        match event:
            case ev.Forward() if all_seen:
                used.update(event.accounts)
            case ev.Backward():
                filled.update(event.accounts)
                if event.site in credited:
                    reached.update(event.accounts)
                    waiting, empty = True, False
            case ev.Step():
                own = owned.get(event.optimizer, set())
                lost = not own & (filled | reached | used) and event.optimizer not in too_early
                empty = empty or (waiting and lost)
                filled -= own
            case ev.Zero():
                filled.difference_update(event.accounts)
                if event.site == finding.site:
                    if empty:
                        return True
                    waiting = False
    return False


def _steps_too_early(tape: list[ev.Event]) -> set[str]:
    """Optimizers that losses reach, and that never have anything of it when they step."""
    owned: Owned = {}
    filled: set[str] = set()
    reached: set[str] = set()
    fed: set[str] = set()
    for event in _noting(tape, owned):
        match event:
            case ev.Backward():
                filled.update(event.accounts)
                reached.update(event.accounts)
            case ev.Step() if owned.get(event.optimizer, set()) & filled:
                fed.add(event.optimizer)
            case ev.Zero():
                filled.difference_update(event.accounts)
    return {name for name, own in owned.items() if own & reached and name not in fed}


def _only_draws_a_schedule(tape: list[ev.Event], finding: Finding) -> bool:
    """Steps with nothing but the scheduler's between them, or nothing at all where it is written by
    hand: to see its rates, not to train."""
    since: set[type[ev.Event]] = set()
    stepped = False
    for event in tape:
        if isinstance(event, ev.Step) and event.site == finding.site:
            if stepped and not since & {ev.Backward, ev.Batch, ev.Forward}:
                return not since or ev.Tick in since
            stepped = True
            since = set()
        else:
            since.add(type(event))
    return False
