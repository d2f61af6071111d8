"""An optimizer's parameter groups: all of them at once, or one by its number."""

from collections.abc import Iterable

from gradkeeper.lint.nodes import Node
from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import Opaque, Optim, Params, Value


class Groups(list[Value]):
    """`optimizer.param_groups`: one group stands for all, until somebody asks by number."""

    def __init__(self, optim: Optim) -> None:
        super().__init__([_group(optim, optim.nodes)])
        self.optim = optim


class Group(dict[str, Value]):
    """`optimizer.param_groups[i]`; its parameters part from the others when they are asked for."""

    def __init__(self, optim: Optim, index: int) -> None:
        super().__init__(_group(optim, optim.nodes))
        self.optim, self.index = optim, index

    def params(self, r: Rehearsal) -> Params:
        nodes = _nodes(r, self.optim, self.index)
        return Params(nodes, f"{self.optim.name}.param_groups[{self.index}]", whose=self.optim)


def _group(optim: Optim, nodes: Iterable[Node]) -> dict[str, Value]:
    params = Params(tuple(nodes), f"{optim.name}.param_groups", whose=optim)
    return {"params": params, "lr": Opaque("lr", data=True)}


def one(groups: Groups, index: int) -> Value:
    count = len(groups.optim.groups)
    return Group(groups.optim, index % count) if count > 1 else groups[0]


def _nodes(r: Rehearsal, optim: Optim, index: int) -> tuple[Node, ...]:
    """A group's own modules; where groups divide the same ones, parts of those."""
    mine = optim.groups[index]
    others = [node for place, some in enumerate(optim.groups) if place != index for node in some]
    if not set(mine) & set(others):
        return mine
    if any(set(some) != set(mine) for some in optim.groups):
        return tuple(optim.nodes)
    if index not in optim.parted:
        optim.parted[index] = tuple(_part(r, node, optim, index) for node in mine)
    return optim.parted[index]


def _part(r: Rehearsal, node: Node, optim: Optim, index: int) -> Node:
    whole = r.registry.accounts(node)[0]
    if len(optim.parted) == len(optim.groups) - 1:
        return Node(node.name, holds=whole)  # what the other groups have left over
    part = Node(f"{node.name}[group {index}]", parent=node)
    r.registry.accounts(part)
    return part
