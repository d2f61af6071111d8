"""The tape of a run while it is being written: what happened to which leaves and optimizers.

What is left open by then is settled when the run has ended: see finished_tape.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradkeeper.lint.libraries.factors import Factor
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.model import events as ev
from gradkeeper.model.site import Site

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.frames import Loop
    from gradkeeper.lint.interpreter.machine import Machine
    from gradkeeper.lint.interpreter.values import Value


@dataclass(slots=True, eq=False)
class RecordedOwner:
    """An optimizer as the tape knows it."""

    name: str
    site: Site
    leaves: dict[Leaf, None] = field(default_factory=dict)
    known: bool = True
    """Its parameters were seen. Else it owns what is settled at the end."""
    whole: bool = True
    """It owns all that it was given, as far as that was seen: no part of an unseen function's."""
    stateful: bool = True
    inherited: bool = False
    """An attribute of an object of the program, which a base class set that is not seen."""
    escaped: bool = False
    """Code that is not seen had it, and may have added to what it owns."""
    kept: bool = False
    """Such code has it for good: it may step it or zero it whenever it runs."""
    wrapped: bool = False
    """What is stepped is something around it that is not seen, and may zero as it steps."""
    wrapped_as: Hashable | None = None
    """The unseen optimizer that was made of it. Of several such, each may be another one."""
    frozen_while: Callable[[Machine], bool] | None = None
    """A framework's word on whether its steps do nothing now, whatever is put around it."""


@dataclass(slots=True)
class Note:
    """An event on its way: its accounts are leaves and owners until the run has ended."""

    kind: type[ev.Event]
    site: Site
    targets: tuple[Leaf | RecordedOwner, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    owner: RecordedOwner | None = None
    open: bool = False
    """A loss that may reach parameters which the source doesn't show."""
    factor: Factor | None = None
    of_network: bool = False
    """A loss that a network itself computed, out of sight."""

    def said(self, names: tuple[str, ...]) -> tuple[object, ...]:
        """All that its event depends on."""
        where = (self.kind, id(self.site), names, self.owner)
        return (*where, self.open, self.factor, self.of_network, *self.fields.items())


@dataclass(slots=True, eq=False)
class Graph:
    """That of a loss. `freed_at`: after how many steps a backward went through it for good."""

    freed_at: int | None = None


class RunTape:
    """Everything that a run has recorded; finished_tape.py makes events of it."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.earlier: list[Note] = []
        """What happened before the run began, and was only found out in the middle of it."""
        self.owners: list[RecordedOwner] = []
        self.batches = 0
        self.backwards = 0
        self.steps = 0
        self.loops: dict[ast.AST, int] = {}
        """Training loops that were run, with the number of their rounds."""
        self.crediting_loops: set[int] = set()
        """Loops in a round of which a loss was sent back."""
        self.waiting_loops: set[int] = set()
        """Loops whose gradients wait for a step."""
        self.steps_by_loop: dict[int, int] = {}
        self.repeated: set[Site] = set()
        """Lines of backward() with losses that went through another one, too."""
        self.unseen: dict[str, None] = {}
        """Why the world is not closed: what went to code that was not seen."""
        self.lent: dict[Leaf, None] = {}
        """Parameters that code was given which is not seen."""
        self.lent_networks: dict[Leaf, None] = {}
        """Those of networks that are not seen themselves, as it was given them in a loop."""
        self.lent_after: list[tuple[Note, Sequence[Leaf]]] = []
        """When such code had networks, once training had begun: after which note."""
        self.lent_objects = False
        """Such code was also given objects of the program, with all that they hold."""
        self.goes_over: set[str] = set()
        """What loops with a backward go over: "numbers", or "data"."""
        self.begun_in_a_network = False
        """Begun in a method of a network that nobody is seen to build."""
        self.hooked = False
        """Gradients go through a hook on their way, or code that is not seen has them in hand."""
        self.driven = False
        """Code that is not seen calls the program back, nobody knows when."""
        self.within: RecordedOwner | None = None
        self.strange_scalers: list[Value] = []
        """Scalers that were not seen being built."""
        self.given_up = False
        """Some loop would have run on, had that not cost too much."""
        self.cut = False
        """Training was left while gradients waited that a later round may have spent."""
        self.newest = 0
        """The latest data that a batch was counted for."""
        self.made_of: tuple[tuple[int, ...], frozenset[Hashable]] = ((), frozenset())
        """The rounds of the loops around the last loss, and the data it was made of, where that was
        there before."""
        self.totals: dict[Site, tuple[str, tuple[Graph, ...]]] = {}
        """Where a loss was last added to a total: the variable, and what that was made of then."""
        self.round_due: tuple[str, Site] | None = None
        """A round of a training loop that has not shown yet whether it has data of its own."""

    def note(
        self,
        m: Machine,
        kind: type[ev.Event],
        targets: Iterable[Leaf | RecordedOwner] = (),
        *,
        owner: RecordedOwner | None = None,
        open: bool = False,
        factor: Factor | None = None,
        of_network: bool = False,
        site: Site | None = None,
        **fields: Any,
    ) -> None:
        m.must_be_sure()
        site = site or m.site()
        m.reach(site)
        self.notes.append(Note(kind, site, tuple(targets), fields, owner, open, factor, of_network))

    def lose_sight(
        self, m: Machine, why: str, owners: Iterable[RecordedOwner] | None = None
    ) -> None:
        """Code is called that is not seen, and may step: these optimizers, or any.

        This says what may be, so that it holds in a branch that may not be taken as well.
        """
        self.unseen[why] = None
        if self.waiting:
            each: Iterable[RecordedOwner | None] = (None,) if owners is None else owners
            for owner in each:
                targets = (owner,) if owner is not None else ()
                fields = {"passing": True, "everything": owner is None}
                self.notes.append(Note(ev.Escape, m.site(), targets, fields, owner))

    @contextmanager
    def beforehand(self) -> Iterator[None]:
        """What is recorded inside happened before the run began."""
        notes, self.notes = self.notes, []
        try:
            yield
        finally:
            self.earlier += self.notes
            self.notes = notes

    def credited(self, loops: Iterable[Loop]) -> None:
        """A loss was sent back inside these."""
        around = {id(loop.node) for loop in loops}
        self.crediting_loops |= around
        self.waiting_loops |= around

    def spent(self) -> None:
        """What waited was applied: the loops that it waits in have come to a step."""
        for loop in self.waiting_loops:
            self.steps_by_loop[loop] = self.steps_by_loop.get(loop, 0) + 1
        self.waiting_loops.clear()

    def has_cleared(self, leaves: set[Leaf]) -> bool:
        """These were set to None together, and nothing can have come to them since."""
        for note in reversed(self.notes):
            if note.kind not in FILL_OR_CLEAR:
                continue
            of = set(atoms(expanded(note.targets)))
            if note.kind is ev.Zero and leaves <= of:
                return note.fields.get("to_none") is True and not leaves & self.lent.keys()
            if note.open or note.kind is ev.Escape or leaves & of:
                return False
        return False

    @property
    def waiting(self) -> bool:
        """Whether a backward has come since the last step or zeroing."""
        for note in reversed(self.notes):
            if note.kind is ev.Backward:
                return True
            if note.kind in (ev.Step, ev.Zero):
                return False
        return False


FILL_OR_CLEAR = (ev.Backward, ev.Zero, ev.Assign, ev.Adjust, ev.Restore, ev.Escape)


def expanded(targets: Iterable[Leaf | RecordedOwner]) -> list[Leaf]:
    found: list[Leaf] = []
    for element in targets:
        if isinstance(element, RecordedOwner):
            found.extend(element.leaves)
        else:
            found.append(element)
    return found
