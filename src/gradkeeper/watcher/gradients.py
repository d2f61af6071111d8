"""Cohorts: parameters that have always moved together, each one an account of the books; and what
was last seen of each of their gradients.

A cohort splits when some of its members are credited, cleared or stepped without the rest.
A weak reference tells gradients apart (addresses are reused), the version counter tells whether one
was written to. Neither sees a write through `.data`: that takes a look at values.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from gradkeeper.model import Site
from gradkeeper.torch_private import held_here, writes_into
from gradkeeper.watcher.names import UserNames, common_path

# Past a property that may lie on torch.nn.Parameter (taps/reads.py).
_descriptor: Any = torch.Tensor.grad
gradient_of: Callable[[torch.Tensor], torch.Tensor | None] = _descriptor.__get__

SAME, CLEARED, WRITTEN, REPLACED = "same", "cleared", "written", "replaced"

MOST_SAMPLED = 65_536
"""Values of a gradient that are copied, to tell later whether it was changed."""


class Mark:
    """One parameter, its gradient and both versions as last seen."""

    __slots__ = ("__weakref__", "grad", "known", "parameter", "version", "weight_version")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter: Callable[[], torch.Tensor | None] = weakref.ref(parameter)
        self.grad: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.weight_version = 0
        self.known = False
        self.note()

    def note(self) -> None:
        """Takes what is there now as seen."""
        reference = self.parameter
        parameter = reference()
        if parameter is None:
            return
        grad = gradient_of(parameter)
        self.known = True
        self.weight_version = parameter._version
        if grad is None:
            self.grad = None
        else:
            self.grad = weakref.ref(grad)
            self.version = writes_into(grad)

    def verdict(self) -> str:
        """What has happened to the gradient since it was last seen."""
        parameter = self.parameter()
        if parameter is None or not self.known:
            return SAME
        grad = gradient_of(parameter)
        if grad is None:
            return SAME if self.grad is None else CLEARED
        if self.grad is None or self.grad() is not grad:
            return REPLACED
        return SAME if writes_into(grad) == self.version else WRITTEN

    def is_credited(self) -> bool:
        """Whether a backward has added to the gradient since it was last seen."""
        parameter = self.parameter()
        grad = None if parameter is None or not self.known else gradient_of(parameter)
        if grad is None:
            return False
        if self.grad is None or self.grad() is not grad:
            return True
        return writes_into(grad) != self.version

    def credit(self) -> bool:
        """`is_credited`, and `note` if so, in one look."""
        reference = self.parameter
        parameter = reference()
        if parameter is None or not self.known:
            return False
        grad, seen = gradient_of(parameter), self.grad
        if grad is None:
            return False
        version = writes_into(grad)
        if seen is None or seen() is not grad:
            self.grad = weakref.ref(grad)
        elif version == self.version:
            return False
        self.version, self.weight_version = version, parameter._version
        return True

    def grad_now(self) -> torch.Tensor | None:
        parameter = self.parameter()
        return None if parameter is None else gradient_of(parameter)

    def note_weight(self) -> None:
        parameter = self.parameter()
        if parameter is not None:
            self.weight_version = parameter._version

    def moved(self) -> bool:
        parameter = self.parameter()
        return parameter is not None and self.known and parameter._version != self.weight_version


def grads_of(marks: list[Mark]) -> list[torch.Tensor]:
    grads = [mark.grad_now() for mark in marks]
    return [grad for grad in grads if grad is not None]


def sample_of(grad: torch.Tensor | None) -> torch.Tensor | None:
    """A copy of the gradient's values, or of some from all over it."""
    if grad is None or grad.is_sparse:
        return None
    flat = held_here(grad).detach().reshape(-1)
    return flat[:: 1 + flat.numel() // MOST_SAMPLED].clone()


def all_finite(tensors: list[torch.Tensor]) -> bool:
    """Whether these hold neither NaN nor inf. Reads values: the cold path only."""
    with torch.no_grad():
        return all(bool(_values(held_here(tensor)).isfinite().all()) for tensor in tensors)


def norms_are_finite(norms: list[torch.Tensor]) -> bool:
    """Of those only that lie on the host: no device is waited for."""
    here = [held_here(norm) for norm in norms if norm.device.type == "cpu"]
    return all(math.isfinite(norm.item()) for norm in here)


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor._values() if tensor.is_sparse else tensor


# In the steady state so many members are looked at, other ones in each window: what is done to all
# is seen at once, what is done to some of them within a few windows.
SAMPLE = 1


class Cohort:
    """One account. `fresh`: backwards wait in it; `spent`: what lies in it was spent before."""

    def __init__(self, name: str, marks: list[Mark], *, trainable: bool = True) -> None:
        self.name = name
        self.marks = marks
        self.trainable = trainable
        self.owners: set[str] = set()
        self.used = False
        """A backward has credited it, or a step spent it."""
        self.fresh = 0
        self.unsynced = False
        """The last backward was kept from the other ranks, and nothing has brought it to them."""
        self.summed_aside = False
        """Since then a tensor was summed over the ranks: a copy of what waits, maybe."""
        self.spent = False
        self.spenders: set[str] = set()
        self.losses: list[torch.Tensor] = []
        """Of what waits, detached: looked at only when it is thrown away."""
        self.norms: list[torch.Tensor] = []
        self.habits: dict[tuple[str, bool], str] = {}
        """What the last change by hand of each kind, with and without backwards waiting, was."""
        self.descends = False
        """Its weights were last moved by hand along the gradient."""
        self.moved_at: Site | None = None
        """Where the gradient was read for that."""
        self.hidden = False
        """Its weights were last moved in a way that only their values show, as through `.data`."""
        self.unseen = ""
        """What was last done to it, after a step, in a way that only its values show."""
        self.left: tuple[Mark, torch.Tensor] | None = None
        """What the last step left in one of its gradients; not kept in a steady loop."""
        self.suspect = False
        """Something of it was thrown away unspent: the weights may be moved by hand."""
        self.memory: tuple[Mark, torch.Tensor, torch.Tensor | None] | None = None
        """A weight and its gradient as they were at the backward, of suspects only, and in a
        steady loop of those only whose weights move unseen."""
        self._turn = 0
        self.few: list[Mark] | None = None
        """In a steady loop, the members whose turn it is to be looked at."""
        self.due = 0
        """Steps since others had their turn, which they have once for each."""
        self.written = False
        """A step was seen to write into its gradients."""

    def part(self, name: str, marks: list[Mark]) -> "Cohort":
        part = Cohort(name, marks, trainable=self.trainable)
        part.owners = set(self.owners)
        part.used = self.used
        part.fresh, part.spent = self.fresh, self.spent
        part.unsynced, part.summed_aside = self.unsynced, self.summed_aside
        part.spenders = set(self.spenders)
        part.losses, part.norms = list(self.losses), list(self.norms)
        part.habits, part.suspect = dict(self.habits), self.suspect
        part.descends, part.moved_at = self.descends, self.moved_at
        part.hidden, part.written = self.hidden, self.written
        part.unseen = self.unseen
        return part

    def note_weights(self) -> None:
        """From now on, the weights as they are count as unmoved."""
        self.memory = None
        for mark in self.marks:
            mark.note_weight()

    def look(self, *, closely: bool) -> list[Mark]:
        """The members to look at: all of them, or the few whose turn it is."""
        if closely:
            self.few, self.due = None, 0
            return self.marks
        return self.few or self._choose()

    def stepped(self) -> None:
        """Of a steady loop: a step is over. Others have their turn at the next zero, when there is
        nothing to look at; or at the next step, if none has come by then."""
        self.left = None
        if self.few is None:
            self.turn()
        elif self.due > 1:
            self.turn()
            self.due = 1
        elif not self.written:
            return
        for mark in self.few or ():
            mark.note()

    def turn(self) -> list[Mark]:
        """Other members have their turn; what they hold is to be noted."""
        self.due, marks = 0, self.marks
        for mark in self.few or marks:
            mark.known = False
        turn = self._turn = (self._turn + SAMPLE) % len(marks)
        few = self.few = marks[turn : turn + SAMPLE]
        return few

    def _choose(self) -> list[Mark]:
        """The rest is not known from now on; what was seen of the chosen ones stays seen, and of
        one that was not seen since the last steady loop no change would be noticed."""
        self._turn = (self._turn + SAMPLE) % len(self.marks)
        in_turn = self.marks[self._turn :] + self.marks[: self._turn]
        few = self.few = [mark for mark in in_turn if mark.known][:SAMPLE] or in_turn[:SAMPLE]
        for mark in self.marks:
            if mark not in few:
                mark.known = False
        return few

    def note(self, *, closely: bool) -> None:
        """What is there now is known."""
        for mark in self.look(closely=closely):
            mark.note()
        if self.left is not None:
            self.leave()

    def left_by_step(self) -> None:
        """Of a loop that is looked at closely: a step is over."""
        self.written = self.written or any(mark.verdict() is not SAME for mark in self.marks)
        self.note(closely=True)
        self.leave()

    def leave(self) -> None:
        """Remembers what a step has left in the smallest gradient that is more than a number."""
        self.left = None
        if not self.spent or self.fresh:
            return
        mark = min(self.marks, key=_how_telling)
        values = sample_of(mark.grad_now())
        if values is not None:
            self.left = (mark, values)

    def let_go(self) -> None:
        """Its members are not to be looked at any more."""
        for mark in self.marks:
            mark.parameter = _gone
        self.memory = self.left = None

    def clear(self) -> None:
        """Its gradients are zeroed, whatever they hold."""
        if self.fresh and not self.spent:
            self.suspect = True
        self.zeroed()

    def wants_gradient(self) -> bool:
        alive = (mark.parameter() for mark in self.marks)
        return all(parameter is None or parameter.requires_grad for parameter in alive)

    def zeroed(self) -> None:
        self.fresh = 0
        self.spent = False
        self.spenders.clear()
        if self.losses:
            self.losses.clear()
        if self.norms:
            self.norms.clear()
        self.memory = self.left = None


def _how_telling(mark: Mark) -> tuple[bool, bool, int]:
    grad = mark.grad_now()
    size = 0 if grad is None or grad.is_sparse else grad.numel()
    return size == 0, size == 1, size


def _gone() -> None:
    """In the place of a weak reference that is not to be followed."""


class Cohorts:
    """All cohorts of one thread, and the way from a parameter to its own."""

    def __init__(self, names: UserNames, path: Callable[[torch.Tensor], str | None]) -> None:
        self._names = names
        self._path = path
        self._of: dict[int, tuple[Mark, Cohort]] = {}
        self._whole: dict[tuple[int, int, int], list[Cohort]] = {}
        """Lists of parameters that cover cohorts exactly, by length, first and last."""
        self.all: dict[str, Cohort] = {}
        self.version = 0
        """Changes whenever a cohort comes, goes or splits."""
        self.changed: list[Callable[[], None]] = []
        """Told of that."""
        self._list: list[Cohort] = []
        self._list_version = -1

    def __iter__(self) -> Iterator[Cohort]:
        return iter(self.everyone())

    def everyone(self) -> list[Cohort]:
        if self._list_version != self.version:
            self._list = list(self.all.values())
            self._list_version = self.version
        return self._list

    def of(self, parameter: torch.Tensor) -> Cohort | None:
        found = self._of.get(id(parameter))
        if found is None or found[0].parameter() is not parameter:
            return None
        return found[1]

    def open(self, wish: str, parameters: list[torch.Tensor], *, trainable: bool) -> Cohort:
        cohort = Cohort(
            self._names.unique(wish),
            [Mark(parameter) for parameter in parameters],
            trainable=trainable,
        )
        self._index(cohort)
        return cohort

    def _index(self, cohort: Cohort) -> None:
        self._change()
        self.all[cohort.name] = cohort
        for mark in cohort.marks:
            parameter = mark.parameter()
            if parameter is not None:
                self._of[id(parameter)] = (mark, cohort)

    def _change(self) -> None:
        self._whole.clear()
        self.version += 1
        for tell in self.changed:
            tell()

    def touched(self, parameters: Iterable[torch.Tensor]) -> dict[Cohort, list[Mark]]:
        """The cohorts of these parameters, each with those of its members that are among them."""
        found: dict[Cohort, list[Mark]] = {}
        for parameter in parameters:
            known = self._of.get(id(parameter))
            if known is not None and known[0].parameter() is parameter:
                found.setdefault(known[1], []).append(known[0])
        return found

    def covered(self, parameters: list[torch.Tensor]) -> list[Cohort] | None:
        """The cohorts of these, if none of them is only partly among them."""
        if not parameters:
            return []
        key = (len(parameters), id(parameters[0]), id(parameters[-1]))
        known = self._whole.get(key)
        if known is None:
            touched = self.touched(parameters)
            if any(len(marks) != len(cohort.marks) for cohort, marks in touched.items()):
                return None
            known = self._whole[key] = list(touched)
        return known

    def split(self, cohort: Cohort, marks: list[Mark]) -> tuple[Cohort, Cohort]:
        """Parts `marks` from the rest of a cohort; returns the part and the rest."""
        chosen = set(map(id, marks))
        rest_marks = [mark for mark in cohort.marks if id(mark) not in chosen]
        part = cohort.part(self._name(marks, cohort.name), marks)
        rest = cohort.part(self._name(rest_marks, cohort.name), rest_marks)
        del self.all[cohort.name]
        self._index(part)
        self._index(rest)
        return part, rest

    def _name(self, marks: list[Mark], whole: str) -> str:
        alive = [tensor for mark in marks if (tensor := mark.parameter()) is not None]
        paths = [path for tensor in alive if (path := self._path(tensor))]
        shared = common_path(paths) if len(paths) == len(alive) else ""
        return self._names.unique(shared or f"{whole.partition(':')[0]}:{len(marks)} of them")

    def drop(self, cohort: Cohort) -> None:
        self._change()
        self._names.release(cohort.name)
        self.all.pop(cohort.name, None)
        self._of = {key: known for key, known in self._of.items() if known[1] is not cohort}

    def sweep(self) -> list[Cohort]:
        """Cohorts whose parameters are all gone."""
        return [cohort for cohort in self if all(mark.parameter() is None for mark in cohort.marks)]

    def parameters(self, cohort: Cohort) -> list[str]:
        alive = [tensor for mark in cohort.marks if (tensor := mark.parameter()) is not None]
        return [self._path(tensor) or f"tensor{tuple(tensor.shape)}" for tensor in alive[:4]]
