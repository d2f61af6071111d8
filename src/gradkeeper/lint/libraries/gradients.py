"""What happens to gradients and weights: added by a backward, spent by hand, asked about."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.objects import flatten
from gradkeeper.lint.interpreter.syntax import last_name
from gradkeeper.lint.interpreter.values import Call, Provenance, Value
from gradkeeper.lint.libraries.factors import ONE, UNKNOWN_FACTOR, Factor
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.provenance import (
    GRADIENT,
    OPEN,
    OWN_LOSS,
    Differentiated,
    Fetched,
    Made,
    Modes,
    Pass,
    Weights,
)
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine
    from gradkeeper.lint.libraries.tensors import Tensor

NAMES = (ast.Name, ast.Attribute)


def retains(call: Call, *, place: int | None = None) -> bool:
    """backward(retain_graph=True): the graph is for another one, which may be the total's.

    `place` is where the first of these options stands among the arguments.
    """
    asked = [call.kwargs.get("retain_graph"), call.kwargs.get("create_graph")]
    if place is not None:
        asked += call.args[place : place + 2]
    return any(option is not None and option.truth(call.m) is not False for option in asked)


def weight_given(call: Call, *, place: int, name: str) -> Factor:
    """backward(gradient): the loss is multiplied by it on its way."""
    given = call.argument(place, name)
    return ONE if given is None or given.is_none(call.m) is True else UNKNOWN_FACTOR


def add_gradients(
    m: Machine, tensor: Tensor, *, divided_by: Factor, scaler: str | None, retains: bool
) -> list[Leaf]:
    """A backward adds to what the loss was computed from: to these parameters."""
    tape, modes = m.state(RunTape), m.state(Modes)
    for graph in tensor.graphs_behind() if not retains else ():
        graph.freed_at = tape.steps
    sources = tensor.sources()
    passes = [source for source in sources if isinstance(source, Pass)]
    then = {leaf for call in passes for leaf in call.live}
    still = {leaf for call in passes for leaf in call.frozen} - then
    live = [leaf for leaf in atoms(leaves_in(sources)) if leaf.requires_grad and leaf not in still]
    wanted = [leaf for leaf in live if not leaf.asked_for] or live
    # PyTorch refuses a loss of which nothing wanted a gradient: then something is missing here.
    # So it is where the loss was made to want one itself, and not all of it was seen.
    seen = [leaf for leaf in live if not (leaf.tensor and leaf.elsewhere)]
    opened = OPEN in tensor.others or not (seen or then) or _is_gone(passes)
    for call in passes if not retains else ():
        call.freed = True
    inputs = [leaf for leaf in wanted if leaf.tensor and not leaf.trainable]
    for_inputs = _is_for_inputs(m, inputs, wanted)
    if not for_inputs and len(inputs) < len(wanted):
        owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
        wanted = [leaf for leaf in wanted if leaf not in inputs or leaf in owned]
    decided = modes.unsynced if modes.unsynced_forward is None else modes.unsynced_forward
    synced = None
    if decided or modes.unsynced_shards:
        modes.speaks_of_sync = True
        synced = False
    elif modes.speaks_of_sync or any(leaf.replicated for leaf in wanted):
        synced = True
    for leaf in wanted:
        leaf.used_at_rest = leaf.used_at_rest or leaf.resting
    tape.backwards += 1
    tape.credited(m.loops)
    _begin_batch(m, tape, sources)
    name = scaler or tensor.scaler
    tape.note(
        m,
        ev.Backward,
        wanted,
        open=opened,
        factor=tensor.factor.times(divided_by),
        of_network=OWN_LOSS in tensor.others,
        reduction=tensor.reduction,
        leaf=for_inputs,
        scaler=name,
        autocast=tensor.autocast if name is None else None,
        coupled=any(leaf.coupled for leaf in wanted),
        synced=synced,
        within=tape.within.name if tape.within else None,
    )
    for source in sources:
        if isinstance(source, Differentiated):
            tape.repeated.add(source.by.site)
    return wanted


def is_refused(tensor: Tensor) -> bool:
    """PyTorch goes through a graph but once: this very loss had its backward, scaled or not."""
    passes = [source for source in tensor.sources() if isinstance(source, Pass)]
    graphs = tensor.graphs_behind()
    return _is_gone(passes) and all(graph.freed_at is not None for graph in graphs)


def _is_gone(passes: list[Pass]) -> bool:
    """PyTorch refuses to go through a graph again: something is missing that made a new one."""
    return bool(passes) and all(call.freed for call in passes)


def _is_for_inputs(m: Machine, inputs: list[Leaf], wanted: list[Leaf]) -> bool:
    """It may have been run for its inputs' gradients: the program reads some."""
    if not inputs or not any("grad" in found for found in m.facts.uses.values()):
        return False
    return len(inputs) < len(wanted) or _only_inputs(m.state(RunTape), inputs, wanted)


def _only_inputs(tape: RunTape, inputs: list[Leaf], wanted: list[Leaf]) -> bool:
    if not inputs or len(inputs) != len(wanted):
        return False
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    return not all(leaf in owned for leaf in inputs)


def _begin_batch(m: Machine, tape: RunTape, sources: Provenance) -> None:
    """A round without data of its own shares the batch of an earlier one, as time steps do."""
    if tape.round_due is None:
        return
    source, site = tape.round_due
    fetched = {source.serial for source in sources if isinstance(source, Fetched)}
    if _goes_over_microbatches(m):
        tape.newest = max(fetched, default=tape.newest)
    elif fetched:
        newest = _batch_around(m, fetched) or max(fetched)
        before, tape.newest = tape.newest, max(tape.newest, newest)
        if newest <= before or (before in fetched and tape.waiting):
            return  # of the same data, or of a state that goes on from it
    elif _is_the_same(m, tape, sources):
        return
    tape.round_due = None
    tape.batches += 1
    tape.note(m, ev.Batch, source=source, site=site)


def _goes_over_microbatches(m: Machine) -> bool:
    """`for i in range(accumulation_steps)` or `for i in range(0, len(batch), microbatch)`, with a
    step only after it: each round is a batch to its losses, though all are parts of one."""
    loop = next((loop for loop in reversed(m.loops) if loop.kind == "batches"), None)
    node = loop.node if loop is not None else None
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=bounds)):
            words = {last_name(bound) for bound in bounds if isinstance(bound, NAMES)}
            by_parts = len(bounds) == 3 and guesses.is_microbatch(last_name(bounds[2]))
            return (by_parts or guesses.is_accumulation(words)) and m.fills_window(node)
    return False


def _batch_around(m: Machine, fetched: set[int]) -> int | None:
    """In a loop that steps only after it: when that began, if data of the loss was there by then,
    as are the crops and the time steps of a batch."""
    place = max((at for at, loop in enumerate(m.loops) if loop.kind == "batches"), default=0)
    if not place or not m.fills_window(m.loops[place].node):
        return None
    begun, end = m.loops[place - 1].round_begun, m.loops[place].begun
    there = {serial for serial in fetched if begun < serial <= end}
    if not there:
        return None
    return max(there) if _are_one_of_several(m, there, begun, end) else end


def _are_one_of_several(m: Machine, fetched: set[int], begun: int, end: int) -> bool:
    """An iterator gave this data out, and has given out more by the end."""
    mine = {m.handed_out[serial] for serial in fetched if serial in m.handed_out}
    return any(
        of is other and number != another
        for of, number in mine
        for serial, (other, another) in m.handed_out.items()
        if begun < serial <= end
    )


def _is_the_same(m: Machine, tape: RunTape, sources: Provenance) -> bool:
    """In a loop that steps only after it, or in one with a loss of its own: several losses of the
    data that the last one was of."""
    data = frozenset(source for source in sources if isinstance(source, Made))
    place = tuple(loop.index for loop in m.loops)
    (where, of), tape.made_of = tape.made_of, (place, data)
    around = place[:-1]
    if not around:
        return False
    if id(m.loops[-2].node) in m.facts.credits_itself:
        where = where[: len(around)]  # before the inner loop, or in it
    elif m.fills_window(m.loops[-1].node):
        where = where[:-1]
    else:
        return False
    return where == around and not data.isdisjoint(of)


def moved(m: Machine, leaves: list[Leaf], values: tuple[Value, ...]) -> None:
    """Weights were changed by hand."""
    given = flatten(list(values))
    by_gradient = any(uses_gradient(element) for element in given)
    others = {leaf for element in given for leaf in atoms(_whose_numbers(element.sources()))}
    if others.difference(atoms(leaves)) and not by_gradient:
        takes_over(m.state(RunTape), leaves)
    tape = m.state(RunTape)
    tape.note(m, ev.Move, leaves, gradient=by_gradient)
    if by_gradient:
        tape.spent()


def _whose_numbers(sources: Provenance) -> Iterator[Leaf]:
    for source in sources:
        if isinstance(source, Leaf):
            yield source
        elif isinstance(source, Weights):
            yield source.of


def takes_over(tape: RunTape, leaves: Iterable[Leaf]) -> None:
    """Their weights are another network's: nobody expects an optimizer for them."""
    owned = {leaf for owner in tape.owners for leaf in atoms(owner.leaves)}
    for leaf in atoms(leaves):
        if leaf not in owned:
            leaf.trainable = False


def uses_gradient(value: Value) -> bool:
    return GRADIENT in value.sources()


def within_step(tape: RunTape) -> str | None:
    return tape.within.name if tape.within else None


class GradHooks:
    """What runs whenever gradients have been added: optimizers that step inside backward."""

    def __init__(self) -> None:
        self.hooks: list[Value] = []


class Guards:
    """Parameters whose gradient was asked about before it was used.

    Whoever asks of one of them in a round asks for all: `if w.grad is not None: b.grad.zero_()`.
    """

    def __init__(self) -> None:
        self.asked: set[Leaf] = set()
        self.moments: set[tuple[int, ...]] = set()

    def ask(self, m: Machine, leaves: Iterable[Leaf]) -> None:
        self.asked.update(leaves)
        self.moments.add(m.moment())

    def asked_by_now(self, m: Machine) -> bool:
        """In this round of a loop, or in the one around it."""
        now = m.moment()
        return any(now[: len(moment)] == moment for moment in self.moments)
