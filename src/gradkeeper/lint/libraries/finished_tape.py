"""What is settled when a run has ended: from its notes to a tape in the ledger's own events.

Which parameters an optimizer owns that was never seen being built, what a loss of unknown origin
reaches, and which parameters always moved together and so make one account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gradkeeper.lint import guesses
from gradkeeper.lint.libraries.factors import ONE, UNKNOWN_FACTOR, Factor
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.recording import Note, RecordedOwner, RunTape, expanded
from gradkeeper.model import events as ev
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


def close(m: Machine, tape: RunTape, end: Site, *, early: bool) -> list[ev.Event]:
    """The finished tape, in the ledger's events."""
    ending = Note(ev.Close, end, fields={"early": early})
    tape.notes = [*tape.earlier, *tape.notes, *_kept(tape), ending]
    _forget_onlookers(tape)
    _name_owners(tape)
    _settle_owners(m, tape)
    _settle_losses(m, tape)
    _settle_inputs(tape)
    _settle_fixed(tape)
    _tell_escapes(m, tape)
    _excuse_phases(tape)
    _update_unseen(tape)
    _excuse_repeated(tape)
    accounts = _accounts(tape)
    events: list[ev.Event] = []
    opened: set[str] = set()
    known: dict[tuple[Leaf | RecordedOwner, ...], tuple[str, ...]] = {}
    told: dict[tuple[object, ...], list[ev.Event]] = {}
    """By note: most rounds of a loop bring the same ones again."""
    for note in tape.notes:
        names = known.get(note.targets)
        if names is None:
            names = known[note.targets] = _names(note.targets, accounts)
            for name in names:
                if name not in opened:
                    opened.add(name)
                    events.extend(_opening(name, accounts, note.site))
        said = note.said(names)
        found = told.get(said)
        if found is None:
            found = told[said] = _event(m, note, names)
        events.extend(found)
    return events


def _forget_onlookers(tape: RunTape) -> None:
    """Optimizers that were not seen being built, and that were only looked at: to log their rate.

    `scheduler.optimizers[-1].param_groups` is no second optimizer, but one that is known already.
    """
    acting: set[RecordedOwner | Leaf | None] = set()
    for note in tape.notes:
        acting.update((note.owner, *note.targets, *note.fields.get("optimizers", ())))
    tape.owners = [
        owner
        for owner in tape.owners
        if owner.known or owner.escaped or owner.kept or owner in acting
    ]


def _excuse_repeated(tape: RunTape) -> None:
    """What a loss made before it went through backward() again is not lost if cleared.

    Nor where the line is only tried, as in an evaluation that takes no step.
    """
    if not tape.repeated:
        return
    notes: list[Note] = []
    for note in tape.notes:
        notes.append(note)
        if note.kind is ev.Backward and note.site in tape.repeated:
            notes.append(Note(ev.Read, note.site, note.targets))
    tape.notes = notes


def _kept(tape: RunTape) -> Iterator[Note]:
    """The totals that hold graphs of several steps: each was gone through, nobody can again."""
    for site, (name, graphs) in tape.totals.items():
        steps = {graph.freed_at for graph in graphs if graph.freed_at is not None}
        if len(steps) > 1:
            yield Note(ev.Keep, site, fields={"total": name, "steps": len(steps)})


def _names(targets: Iterable[Leaf | RecordedOwner], accounts: dict[Leaf, str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for leaf in atoms(expanded(targets)):
        found[accounts[leaf]] = None
    return tuple(sorted(found))


def _opening(name: str, accounts: dict[Leaf, str], site: Site) -> list[ev.Event]:
    members = [leaf for leaf, account in accounts.items() if account == name]
    found: list[ev.Event] = []
    if not all(leaf.trainable and leaf.seen for leaf in members):
        found.append(ev.Open(site=site, account=name, trainable=False))
    if any(leaf.elsewhere for leaf in members):
        # Whoever made it may have filled its .grad.
        found.append(ev.Read(site=site, accounts=(name,)))
    return found


def _event(m: Machine, note: Note, names: tuple[str, ...]) -> list[ev.Event]:
    fields = dict(note.fields)
    if note.kind in (
        ev.Batch,
        ev.EpochBegin,
        ev.EpochEnd,
        ev.Shuffle,
        ev.Resume,
        ev.Overrun,
        ev.Keep,
        ev.Close,
        ev.Exhaust,
        ev.Update,
        ev.Scale,
    ):
        return [note.kind(site=note.site, **fields)]
    if note.kind is ev.Escape:
        names_of = (note.owner.name,) if note.owner else ()
        return [ev.Escape(site=note.site, optimizers=names_of, accounts=names, **fields)]
    if note.owner is not None:
        fields["optimizer"] = note.owner.name
    if note.kind is ev.Adopt:
        fields["stateful"] = note.owner.stateful if note.owner else True
        return [ev.Adopt(site=note.site, accounts=names, **fields)] if names else []
    if note.kind in (ev.Step, ev.Tick, ev.Unscale):
        return [note.kind(site=note.site, **fields)]
    if note.kind is ev.Backward:
        factor = UNKNOWN_FACTOR if m.state(RunTape).hooked else note.factor or ONE
        fields["multiplier"] = factor.value(m.numbers)
        fields["twice"] = _twice(m, note, factor)
        fields["unseen"] = note.open
        own = note.of_network or not note.open
        if fields.get("reduction") is None and fields["multiplier"] == 1.0 and own:
            if guesses.is_accumulation(m.facts.gate_words):
                fields["reduction"] = "assumed mean"
        return [ev.Backward(site=note.site, accounts=names, **fields)]
    if not names and not fields.get("optimizers"):
        return []
    if "optimizers" in fields:
        fields["optimizers"] = tuple(owner.name for owner in fields["optimizers"])
    fields["accounts"] = names
    return [note.kind(site=note.site, **fields)]


def _twice(m: Machine, note: Note, factor: Factor) -> int | None:
    """A sum is divided by its items first, and who knows what a loss of unknown making is."""
    reduction = note.fields.get("reduction")
    if reduction == "sum":
        return None
    named = not any(isinstance(divisor, float) for divisor in factor.divisors)
    known = reduction == "mean" or note.of_network or named
    return factor.twice(m.numbers) if known else None


def _name_owners(tape: RunTape) -> None:
    """Two optimizers of one name are told apart by the lines where they were built."""
    taken: dict[str, int] = {}
    for owner in tape.owners:
        taken[owner.name] = taken.get(owner.name, 0) + 1
    lines: dict[str, int] = {}
    for owner in tape.owners:
        if taken[owner.name] > 1:
            owner.name = f"{owner.name} of line {owner.site.line}"
            lines[owner.name] = lines.get(owner.name, 0) + 1
            if lines[owner.name] > 1:
                owner.name = f"{owner.name} ({lines[owner.name]})"


def _settle_owners(m: Machine, tape: RunTape) -> None:
    """Optimizers of unknown parameters own what they step over and nobody else owns."""
    strangers = [owner for owner in tape.owners if not owner.known]
    if not strangers:
        return
    owned = {leaf for owner in tape.owners if owner.known for leaf in atoms(owner.leaves)}
    # What only an attack on the inputs reaches is another network, or a copy.
    reached = _reached(tape, for_inputs=False) or _reached(tape)
    everything = {
        leaf: None
        for leaves in reached.values()
        for leaf in leaves
        if leaf not in owned and (leaf.trainable or not leaf.tensor)
    }
    if len(strangers) == 1:
        if len(tape.owners) == 1:
            # Nobody else is there: what is zeroed or clipped is its own as well.
            for note in tape.notes:
                if note.kind in (ev.Zero, ev.Clip, ev.Save, ev.Restore, ev.Adjust, ev.Assign):
                    for leaf in atoms(expanded(note.targets)):
                        if not leaf.tensor:
                            everything[leaf] = None
        mine = everything or {Leaf("parameters", trainable=False): None}
        strangers[0].leaves = dict(mine)
    else:
        _share_out(m, tape, strangers, owned)
    for stranger in strangers:
        _adopt_early(tape, stranger)


def _reached(tape: RunTape, *, for_inputs: bool = True) -> dict[Site, dict[Leaf, None]]:
    """By line of a backward: what it credits. Also of those that were made for inputs' sake?"""
    found: dict[Site, dict[Leaf, None]] = {}
    told = {(id(note.site), note.targets): note for note in tape.notes if note.kind is ev.Backward}
    for note in told.values():
        if note.fields["leaf"] and not for_inputs:
            continue
        leaves = found.setdefault(note.site, {})
        leaves.update(dict.fromkeys(atoms(expanded(note.targets))))
    return found


def _share_out(m: Machine, tape: RunTape, strangers: list[RecordedOwner], owned: set[Leaf]) -> None:
    """Several optimizers of unknown parameters: each owns what only its losses reach.

    A loss is an optimizer's if that one steps next. What two of them claim goes to the one whose
    losses reach the least; where that does not tell, whose parameters they are is not known.
    """
    claims: dict[RecordedOwner, dict[Leaf, None]] = {}
    told: set[RecordedOwner] = set()
    """Those of which some loss is seen to reach anything."""
    lines: dict[RecordedOwner, set[Site]] = {}
    """Where the losses are that each steps for."""
    last: list[Note] = []
    stepped: set[str] = set()
    for note in tape.notes:
        if note.kind is ev.Backward:
            if stepped:
                last, stepped = [], set()
            last.append(note)
        elif note.kind is ev.Step and note.owner in strangers and last:
            assert note.owner is not None
            stepped.add(note.owner.name)
            mine = claims.get(note.owner)
            reach = dict.fromkeys(
                leaf
                for backward in last
                for leaf in atoms(expanded(backward.targets))
                if leaf not in owned
            )
            claims[note.owner] = reach if mine is None else {x: None for x in mine if x in reach}
            lines.setdefault(note.owner, set()).update(backward.site for backward in last)
            if reach:
                told.add(note.owner)
    if _zeroes_unclaimed(tape, owned.union(*claims.values())):
        m.doubt("whose parameters an optimizer owns is not seen")
    if not _split_shared(claims, lines):
        m.doubt("whose parameters an optimizer owns is not seen")
    taken: set[Leaf] = set()
    for owner in sorted(claims, key=lambda claim: len(claims[claim])):
        mine = {leaf: None for leaf in claims[owner] if leaf not in taken}
        if not mine:
            if owner in told:
                m.doubt("whose parameters an optimizer owns is not seen")
            mine = {Leaf(owner.name, trainable=False): None}
        owner.leaves = mine
        taken.update(mine)
    for owner in strangers:
        if owner not in claims:
            owner.leaves = {Leaf(owner.name, trainable=False): None}
            owner.escaped = True


def _zeroes_unclaimed(tape: RunTape, known: set[Leaf]) -> bool:
    """A network is zeroed that no loss is seen to reach: one of the optimizers will own it."""
    return any(
        not leaf.tensor and leaf not in known
        for note in tape.notes
        if note.kind is ev.Zero
        for leaf in atoms(expanded(note.targets))
    )


def _split_shared(
    claims: dict[RecordedOwner, dict[Leaf, None]], lines: dict[RecordedOwner, set[Site]]
) -> bool:
    """Optimizers that always step together share what their losses reach.

    False: some of them step for losses of their own, of which nobody can tell what each reaches.
    """
    together = True
    groups: dict[frozenset[Leaf], list[RecordedOwner]] = {}
    for owner, leaves in claims.items():
        groups.setdefault(frozenset(leaves), []).append(owner)
    for shared, owners in groups.items():
        if shared and any(lines[owner] != lines[owners[0]] for owner in owners):
            together = False
        rest = list(atoms(shared))
        for owner in owners[:-1]:
            parts = [leaf.split(("owner", id(owner))) for leaf in rest]
            claims[owner] = {mine: None for mine, _ in parts}
            rest = [others for _, others in parts]
        claims[owners[-1]] = dict.fromkeys(rest)
    return together


def _adopt_early(tape: RunTape, owner: RecordedOwner) -> None:
    """An optimizer that was not seen being built was there from the beginning."""
    tape.notes.insert(0, Note(ev.Adopt, owner.site, (owner,), owner=owner))


def _followers(tape: RunTape, *, within_a_batch: bool) -> dict[Site, set[RecordedOwner]]:
    """By line of a backward: whose steps come next after it."""
    found: dict[Site, set[RecordedOwner]] = {}
    waiting: list[Note] = []
    for note in tape.notes:
        if note.kind is ev.Backward:
            waiting.append(note)
        elif note.kind is ev.Batch and within_a_batch:
            waiting = []
        elif note.kind is ev.Step and note.owner is not None:
            for function in waiting:
                found.setdefault(function.site, set()).add(note.owner)
            waiting = []
    return found


def _settle_losses(m: Machine, tape: RunTape) -> None:
    """A loss of unknown origin is for whoever steps next, as long as that is always the same."""
    near = _followers(tape, within_a_batch=True)
    followers = {**_followers(tape, within_a_batch=False), **near}
    next_steps = _next_steps(tape)
    reached = _all_reached(tape)
    unreached = [owner for owner in tape.owners if _may_be_handed_in(owner, reached)]
    one_by_one = {note.site for note in tape.notes if note.kind is ev.Backward} - {
        note.site for note in tape.notes if note.kind is ev.Backward and id(note) not in next_steps
    }
    for note in tape.notes:
        if note.kind is not ev.Backward:
            continue
        if not note.open and not (unreached and _is_handed_in(note)):
            continue
        if note.targets and note.fields["leaf"]:
            continue  # made for the sake of inputs: an attack, a saliency map
        owners = followers.get(note.site, set()) or set(tape.owners[:1])
        of_one_line = len({owner.site for owner in owners}) == 1
        if len(owners) > 1 and id(note) in next_steps and (of_one_line or note.site in one_by_one):
            # Each in its turn, or built anew for every fold: the loss is for the present one.
            owners = {next_steps[id(note)]}
        if len(owners) == 1:
            note.targets = (*note.targets, *owners)
        elif not note.targets:
            m.doubt("which optimizer a loss is for cannot be told")
    _settle_faults(tape)


def _settle_faults(tape: RunTape) -> None:
    """A backward that was interrupted leaves its gradients where it would have put them."""
    last: Note | None = None
    for note in tape.notes:
        if note.kind is ev.Backward:
            last = note
        elif note.kind is ev.Fault and last is not None:
            note.targets = last.targets


def _next_steps(tape: RunTape) -> dict[int, RecordedOwner]:
    """By backward: who alone steps next; after the last step, who stepped last."""
    found: dict[int, RecordedOwner] = {}
    waiting: list[Note] = []
    stepping: set[RecordedOwner] = set()
    last: set[RecordedOwner] = set()
    for note in [*tape.notes, Note(ev.Backward, Site("", 1))]:
        if note.kind is ev.Step and note.owner is not None:
            stepping.add(note.owner)
        elif note.kind is ev.Backward:
            if stepping:
                for owner in stepping if len(stepping) == 1 else ():
                    found.update((id(function), owner) for function in waiting)
                waiting, last, stepping = [], stepping, set()
            waiting.append(note)
    for owner in last if len(last) == 1 else ():
        found.update((id(function), owner) for function in waiting)
    return found


def _update_unseen(tape: RunTape) -> None:
    """A scaler that comes from elsewhere and is updated nowhere here is updated there."""
    updated = {note.fields["scaler"] for note in tape.notes if note.kind is ev.Update}
    strange = {strange_scaler.text for strange_scaler in tape.strange_scalers} - updated
    if not strange:
        return
    _scale_unseen(tape, strange)
    notes: list[Note] = []
    for note in tape.notes:
        notes.append(note)
        if note.kind is ev.Step and note.fields.get("scaler") in strange:
            notes.append(Note(ev.Update, note.site, fields={"scaler": note.fields["scaler"]}))
    tape.notes = notes


def _scale_unseen(tape: RunTape, strange: set[str]) -> None:
    """One that only scales, beside optimizers from elsewhere: those divide by it themselves."""
    if any(owner.known for owner in tape.owners):
        return
    for note in tape.notes:
        if note.kind in (ev.Step, ev.Unscale):
            strange.discard(note.fields.get("scaler") or "")
    for note in tape.notes:
        if note.kind is ev.Backward and note.fields.get("scaler") in strange:
            note.fields["scaler"] = None


def _may_be_the_same(owner: RecordedOwner, reached: set[Leaf]) -> bool:
    """No loss reaches it, but one reaches another network that came from elsewhere.

    Whoever made the two may have made one of parts of the other; and whoever hands a network in
    may hand in the very one that it owns.
    """
    if _may_be_handed_in(owner, reached):
        return True
    if not any(leaf.elsewhere for leaf in atoms(owner.leaves)):
        return False
    own = set(atoms(owner.leaves))
    return not reached & own and any(leaf.elsewhere for leaf in reached)


def _may_be_handed_in(owner: RecordedOwner, reached: set[Leaf]) -> bool:
    """No loss reaches what it owns, but one reaches a network that an unseen caller hands in."""
    if not owner.known or reached & set(atoms(owner.leaves)):
        return False
    return any(leaf.handed_in for leaf in reached)


def _all_reached(tape: RunTape) -> set[Leaf]:
    return {leaf for leaves in _reached(tape).values() for leaf in leaves}


def _is_handed_in(note: Note) -> bool:
    return any(leaf.handed_in for leaf in atoms(expanded(note.targets)))


def _tell_escapes(m: Machine, tape: RunTape) -> None:
    """What went out of sight: optimizers of which unseen code has hold, or was never seen built.

    One that was handed in stays in sight here, unless the program steps elsewhere only: then this
    may be a trial of what fits into memory, or one part of the training.
    """
    elsewhere = not tape.steps and m.facts.steps_outside(tape.loops)
    reached = _all_reached(tape)
    for owner in tape.owners:
        kept = owner.kept or _may_be_the_same(owner, reached) or (elsewhere and not owner.known)
        if kept or owner.escaped or not owner.known:
            fields = {"given": not kept and not owner.known, "passing": not kept and owner.known}
            tape.notes.insert(0, Note(ev.Escape, owner.site, (owner,), fields, owner=owner))
    if tape.unseen:
        site = tape.notes[0].site if tape.notes else Site("", 1)
        fields = {"everything": True, "passing": not tape.driven}
        tape.notes.insert(0, Note(ev.Escape, site, fields=fields))


def _excuse_phases(tape: RunTape) -> None:
    """Parameters that an optimizer is built for, after others have stepped beside them, have a
    phase of their own; unless somebody thawed them before, to have them trained already."""
    owned: set[Leaf] = set()
    waiting: set[Leaf] = set()
    orphans: set[Leaf] = set()
    later: dict[Leaf, None] = {}
    known: set[tuple[Leaf | RecordedOwner, ...]] = set()
    for note in tape.notes:
        if note.kind is ev.Backward and note.targets not in known:
            known.add(note.targets)
            waiting.update(leaf for leaf in atoms(expanded(note.targets)) if leaf not in owned)
        elif note.kind is ev.Step:
            orphans |= waiting
        elif note.kind is ev.Adopt:
            own = tuple(atoms(expanded(note.targets)))
            owned.update(own)
            waiting.difference_update(own)
            later.update((leaf, None) for leaf in own if leaf in orphans and not leaf.thawed)
    if later:
        fields = {"passing": True}
        tape.notes.insert(0, Note(ev.Escape, tape.notes[0].site, tuple(later), fields))


def _settle_inputs(tape: RunTape) -> None:
    """Where only inputs are optimized, the networks they go through are meant to stay.

    Tensors that no network holds, such as a perturbation or a temperature, are as good as inputs.
    """
    owned = [leaf for owner in tape.owners for leaf in atoms(owner.leaves)]
    if not owned or not all(leaf.tensor for leaf in owned):
        return
    inputs = not any(leaf.trainable for leaf in owned)
    for note in tape.notes:
        if note.kind is ev.Backward:
            for leaf in atoms(expanded(note.targets)):
                leaf.trainable = leaf.trainable and leaf.tensor and not inputs


def _settle_fixed(tape: RunTape) -> None:
    """A network in eval() that nobody owns judges the others, and is meant to stay as it is."""
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    for leaves in _reached(tape).values():
        for leaf in leaves:
            if leaf.used_at_rest and leaf not in owned:
                leaf.trainable = False


def _accounts(tape: RunTape) -> dict[Leaf, str]:
    """Names for the groups of leaves that occur in the same events throughout."""
    members: dict[Leaf, list[int]] = {}
    known: dict[tuple[Leaf, ...], int] = {}
    # Most notes of a loop concern the same as those of the round before.
    for targets in dict.fromkeys(note.targets for note in tape.notes if note.kind is not ev.Read):
        leaves = tuple(atoms(expanded(targets)))
        number = known.setdefault(leaves, len(known))
        for leaf in leaves:
            signature = members.setdefault(leaf, [])
            if number not in signature:
                signature.append(number)
    for targets in dict.fromkeys(note.targets for note in tape.notes if note.kind is ev.Read):
        for leaf in atoms(expanded(targets)):
            members.setdefault(leaf, [])
    groups: dict[tuple[Any, ...], list[Leaf]] = {}
    for leaf, signature in members.items():
        state = (leaf.trainable and leaf.seen, leaf.coupled)
        groups.setdefault((*signature, state), []).append(leaf)
    found: dict[Leaf, str] = {}
    taken: dict[str, int] = {}
    for group in groups.values():
        name = _common(group)
        taken[name] = taken.get(name, 0) + 1
        if taken[name] > 1:
            name = f"{name}#{taken[name]}"
        found.update(dict.fromkeys(group, name))
    return found


def _common(group: list[Leaf]) -> str:
    """What the names of a group have in common, up to a dot."""
    names = [leaf.name.split(".") for leaf in group]
    common = names[0]
    for name in names[1:]:
        length = 0
        while length < min(len(common), len(name)) and common[length] == name[length]:
            length += 1
        common = common[:length]
    return ".".join(common) or group[0].name
