"""Where the world of a run is open: what may have been done out of sight, and which rules mind.

A rule that argues from absence may speak only where everything was seen that could have done the
missing thing.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from gradkeeper.lint.libraries.leaves import atoms
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape, expanded
from gradkeeper.lint.roots import Root
from gradkeeper.model import events as ev

CLOSED = {
    "GK101": frozenset({"lent each round", "wrapper"}),
    "GK102": frozenset({"optimizers"}),
    "GK103": frozenset({"optimizer", "loss", "lent owned", "caller", "rounds"}),
    "GK104": frozenset({"optimizers"}),
    "GK105": frozenset({"optimizer", "lent", "network", "rounds"}),
    "GK106": frozenset({"optimizer", "loss", "lent owned", "caller", "rounds"}),
    "GK107": frozenset({"strange step", "one batch"}),
    "GK601": frozenset({"loss", "lent", "rounds"}),
}
"""By rule: where the world of a run may not be open for it to speak, see `openings`."""
FROM_ABSENCE = frozenset({"GK103", "GK105", "GK106", "GK107", "GK307", "GK401", "GK602"})
"""Rules that conclude from what did not happen: silent unless the run came to its end and each of
its settings was tried both ways, and never told under a setting."""


def openings(tape: RunTape, root: Root) -> frozenset[str]:
    """Where the world of a run is open: what may have been done out of sight, by kind.

    optimizer     one was not seen being built, or unseen code had it
    optimizers    several that were not seen being built are at work by turns: which parameters are
                  whose?
    strange step  one that was not seen being built steps: it may be one that was
    loss          a part of one comes from unseen code, which made parameters that are owned
    lent          unseen code was given parameters
    lent owned    of those, some that an optimizer owns
    one batch     a function goes back over what its caller hands in, for so many times, beside an
                  optimizer from elsewhere, which the caller may step
    lent each round  those of a network, between any two steps of an optimizer that owns some
    wrapper       unseen code around an optimizer is stepped, and nobody is seen to zero it
    network       whoever builds the one where the run began may hand it to an optimizer
    rounds        a loop was given up for what it costs, and its other rounds might have done it
    caller        an unseen one hands in what may be made of parameters that were there before
    unsure        whether two optimizers own the same ones: networks made by unseen code may look
                  alike, and what is told apart by a condition on names may not be what it seems
    """
    found: set[str] = set()
    if tape.unseen or any(not owner.known or owner.escaped for owner in tape.owners):
        found.add("optimizer")
    if _take_turns(tape, [owner for owner in tape.owners if not owner.known]):
        found.add("optimizers")
    steps = (note.owner for note in tape.notes if note.kind is ev.Step)
    if any(owner is not None and not owner.known for owner in steps):
        found.add("strange step")
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    if tape.lent or tape.lent_objects:
        found.add("lent")
    if tape.lent_objects or not owned.isdisjoint(atoms([*tape.lent, *tape.lent_networks])):
        found.add("lent owned")
    strange = any(not owner.known for owner in tape.owners)
    if strange and root.function is not None and tape.goes_over == {"numbers"}:
        found.add("one batch")
    if any(_is_lent_each_round(tape, owner) for owner in tape.owners if tape.lent_after):
        found.add("lent each round")
    if any(owner.wrapped and not _is_zeroed(tape, owner) for owner in tape.owners):
        found.add("wrapper")
    open_losses = any(note.open for note in tape.notes if note.kind is ev.Backward)
    if open_losses and any(leaf.elsewhere for leaf in owned):
        found.add("loss")
    if any(leaf.elsewhere or leaf.known for leaf in owned) or not all(
        owner.whole for owner in tape.owners
    ):
        found.add("unsure")
    if tape.given_up:
        found.add("rounds")
    if tape.begun_in_a_network:
        found.add("network")
    if _comes_from_callers(tape, root):
        found.add("caller")
    return frozenset(found)


def _take_turns(tape: RunTape, owners: list[RecordedOwner]) -> bool:
    """Some of these step or are zeroed in between others: not one after the other, each for itself,
    as in a script that trains twice."""
    if len(owners) < 2:
        return False
    spans: dict[RecordedOwner, tuple[int, int]] = {}
    for place, note in enumerate(tape.notes):
        for target in (note.owner, *note.targets) if note.kind in (ev.Step, ev.Zero) else ():
            if isinstance(target, RecordedOwner):
                first, _ = spans.get(target, (place, place))
                spans[target] = (first, place)
    if not all(owner in spans for owner in owners):
        return True
    ordered = sorted(spans[owner] for owner in owners)
    return any(later[0] <= earlier[1] for earlier, later in pairwise(ordered))


def _is_zeroed(tape: RunTape, owner: RecordedOwner) -> bool:
    zeros = (note for note in tape.notes if note.kind is ev.Zero)
    own = set(atoms(owner.leaves))
    return any(not own.isdisjoint(atoms(expanded(note.targets))) for note in zeros)


def _is_lent_each_round(tape: RunTape, owner: RecordedOwner) -> bool:
    own = set(atoms(owner.leaves))
    lent_after = {id(note) for note, lent in tape.lent_after if not own.isdisjoint(atoms(lent))}
    rounds: list[bool] = []
    lent = False
    for note in tape.notes if lent_after else ():
        if note.kind is ev.Step and note.owner is owner:
            rounds.append(lent)
            lent = False
        lent = lent or id(note) in lent_after
    return len(rounds) > 1 and all(rounds[1:])


def _comes_from_callers(tape: RunTape, root: Root) -> bool:
    """What an unseen caller hands in may be made of parameters that were there before."""
    function = root.function
    if function is None:
        return False
    own = root.home is not None and not any(map(_is_static, function.decorator_list))
    spec = function.args
    given = len(spec.posonlyargs) + len(spec.args) + len(spec.kwonlyargs) - own
    lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    before = any(
        owner.site.file != root.path or owner.site.line not in lines for owner in tape.owners
    )
    return given > 0 and before


def _is_static(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
