"""Parameters: what gradients are kept for.

A `Leaf` stands for parameters that nothing has told apart so far: a layer, a network that was not
seen, a single tensor. When a program does tell some of them apart (`model.fc`, `if "bias" in
name`), the leaf is split, and whoever held it holds its parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from gradkeeper.lint.interpreter.values import Provenance

Leaves = frozenset["Leaf"]


@dataclass(slots=True, eq=False)
class Leaf:
    """Parameters that were never told apart. `seen`: the source shows that they exist."""

    name: str
    seen: bool = False
    requires_grad: bool = True
    trainable: bool = True
    """False for inputs and copies: nobody expects an optimizer for them."""
    tensor: bool = False
    """One tensor rather than the parameters of a module."""
    coupled: bool = False
    """BatchNorm and its like: what it computes depends on the whole batch."""
    replicated: bool = False
    """Inside DistributedDataParallel."""
    elsewhere: bool = False
    """Made by code that is not seen, which may have filled its .grad already."""
    handed_in: bool = False
    """Of a network that a caller hands in who is not seen: it may be one that is known."""
    parts: tuple[Leaf, ...] = ()
    resting: bool = False
    """The network that holds it was put into eval() last."""
    used_at_rest: bool = False
    """A loss came through it in that state."""
    thawed: bool = False
    """It was held still before, and is to be trained from then on."""
    asked_for: bool = False
    """torch.autograd.grad was asked for its gradient."""
    known: dict[Hashable, bool] = field(default_factory=dict)
    """The conditions that set it apart, with what they say of it."""
    _splits: dict[Hashable, tuple[Leaf, Leaf]] = field(default_factory=dict)

    def split(self, by: Hashable, name: str = "", *, both: bool = True) -> tuple[Leaf, Leaf]:
        """The part to which a condition applies, and the rest.

        `both`: there are parameters in each; else all of them may be in one.
        """
        found = self._splits.get(by)
        if found is None:
            found = (self._part(by, True, name), self._part(by, False, ""))
            if not both:
                for part in found:
                    part.seen = False
            self._splits[by] = found
            self.parts = found
        return found

    def _part(self, by: Hashable, answer: bool, name: str) -> Leaf:
        return Leaf(
            f"{self.name}.{name}" if name else self.name,
            self.seen,
            self.requires_grad,
            self.trainable,
            self.tensor,
            self.coupled,
            self.replicated,
            self.elsewhere,
            self.handed_in,
            resting=self.resting,
            used_at_rest=self.used_at_rest,
            thawed=self.thawed,
            asked_for=self.asked_for,
            known={**self.known, by: answer},
        )


def atoms(leaves: Iterable[Leaf]) -> Iterator[Leaf]:
    """The leaves as they have been told apart by now, each once."""
    whole = dict.fromkeys(leaves)
    for leaf in whole:
        if leaf.parts:
            return _parts_of(whole)
    return iter(whole)


def _parts_of(leaves: Iterable[Leaf]) -> Iterator[Leaf]:
    seen: set[int] = set()
    stack = list(leaves)[::-1]
    while stack:
        leaf = stack.pop()
        if id(leaf) in seen:
            continue
        seen.add(id(leaf))
        if leaf.parts:
            stack.extend(reversed(leaf.parts))
        else:
            yield leaf


def leaves_in(sources: Provenance) -> Leaves:
    return (
        frozenset([source for source in sources if type(source) is Leaf]) if sources else NO_LEAVES
    )


NO_LEAVES: Leaves = frozenset()
