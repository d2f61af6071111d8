"""The parameters of a rehearsed program: a tree of modules over the ledger's accounts.

A tree is one account until something asks for a part of it; then the account splits, so that
a model of a thousand layers costs no more than one layer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Node:
    """A module or a parameter. `holds` is its account, once someone has asked for it."""

    name: str
    parent: "Node | None" = None
    holds: str | None = None
    parts: list["Node"] = field(default_factory=list)
    """Descendants with accounts of their own, and modules that other trees share with this one."""
    frozen: bool = False
    trainable: bool = True
    """False where nobody would expect an optimizer: libraries' models, inputs, losses."""
    single: bool = False
    """One tensor rather than a module."""
    synced: bool | None = None
    coupled: bool = False
    asked_for: bool = False
    """torch.autograd.grad was asked for its gradient: what a later backward leaves there is a
    by-product, as in a gradient penalty."""
    unused: bool = False
    """Nothing in the file reads it: no loss reaches it."""
    solid: bool = False
    """The source shows that it has weights of its own."""
    listed: tuple["Node", ...] = ()
    """All that it is made of, for a container of modules."""
    foreign: bool = False
    """It comes from outside: whether it has gradients already is not known."""
    of_unseen_class: bool = False
    """What else its forward reaches is not known."""

    def live(self) -> bool:
        """Whether gradients reach it."""
        node: Node | None = self
        while node is not None:
            if node.frozen:
                return False
            node = node.parent
        return True


class Registry:
    """Hands out accounts, each with a name of its own."""

    def __init__(
        self,
        on_split: Callable[[str, tuple[str, ...]], None],
        on_open: Callable[[str, bool], None],
        on_foreign: Callable[[str], None],
    ) -> None:
        self._names: dict[str, int] = {}
        self._on_split = on_split
        self._on_open = on_open
        self._on_foreign = on_foreign

    def unique(self, name: str) -> str:
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return name if count == 1 else f"{name}#{count}"

    def attach(self, child: Node, parent: Node, name: str, *, inborn: bool = False) -> None:
        """`parent.name = child`: the child's parameters are the parent's from now on.

        `inborn`: it happens in the parent's __init__, which may be rehearsed late.
        """
        if child is parent or _is_above(child, parent):
            return
        if child.parent is None and child.holds is None:
            if inborn or _top(parent).holds is None:
                child.parent = parent
                child.name = f"{parent.name}.{name}"
                return
        self.accounts(child)
        if child not in parent.parts:
            self.accounts(parent)
            parent.parts.append(child)

    def accounts(self, node: Node) -> tuple[str, ...]:
        """The accounts of a node's parameters; splits those that reach beyond it."""
        if node.holds is None:
            self._claim(node)
        found: dict[str, None] = {}
        _collect(node, found, set())
        return tuple(found)

    def live_accounts(self, node: Node) -> tuple[str, ...]:
        """Those that a gradient reaches now."""
        if not node.live():
            return ()
        if node.holds is None:
            self._claim(node)
        found: dict[str, None] = {}
        _collect(node, found, set(), live=True)
        return tuple(found)

    def _claim(self, node: Node) -> None:
        if node.parent is None:
            node.holds = self.unique(node.name)
            if not node.trainable:
                self._on_open(node.holds, False)
            if node.foreign:
                self._on_foreign(node.holds)
            return
        if node.parent.holds is None:
            self._claim(node.parent)
        whole = node.parent.holds
        assert whole is not None
        node.holds = self.unique(node.name)
        node.parent.parts.append(node)
        self._on_split(whole, (whole, node.holds))
        # What is left of the whole may be nothing at all: nobody shall miss an owner for it.
        self._on_open(whole, False)
        if not node.single:
            self._on_open(node.holds, node.trainable)
        for sibling in node.parent.listed:
            if sibling.solid and sibling.holds is None and sibling.parent is node.parent:
                self._claim(sibling)


def _top(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _is_above(node: Node, other: Node) -> bool:
    above: Node | None = other
    while above is not None:
        if above is node:
            return True
        above = above.parent
    return False


def _collect(node: Node, found: dict[str, None], seen: set[Node], *, live: bool = False) -> None:
    if node in seen or (live and (node.frozen or node.unused)):
        return
    seen.add(node)
    if node.holds is not None:
        found[node.holds] = None
    for part in node.parts:
        _collect(part, found, seen, live=live)
