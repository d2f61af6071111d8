"""Whether a backward reached any of the owner's parameters."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

Mark = tuple[int, int] | None


class Witness:
    """One parameter that is usually credited: two reads tell, in place of a look at all of them."""

    def __init__(self) -> None:
        self._parameter: Tensor | None = None

    def mark(self) -> Mark:
        """Changes whenever the parameter is credited."""
        if self._parameter is None or self._parameter.grad is None:
            return None
        return id(self._parameter.grad), self._parameter.grad._version

    @property
    def gone(self) -> bool:
        """It was credited, and holds nothing now."""
        return self._parameter is not None and self._parameter.grad is None

    def finds_credit(self, loss: Tensor, parameters: Sequence[Tensor], *, first: bool) -> bool:
        """Looks further after a backward that left the mark as it was."""
        if not first:
            return reaches(loss, parameters)
        self._parameter = next((p for p in parameters if p.grad is not None), None)
        return self._parameter is not None


def reaches(loss: Tensor, parameters: Sequence[Tensor]) -> bool:
    """Walks the graph. A custom function counts as reaching: checkpoints may hide behind one."""
    wanted = {id(one) for one in parameters}
    if id(loss) in wanted:
        return True
    seen = set()
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, BackwardCFunction) or id(getattr(node, "variable", None)) in wanted:
            return True
        waiting.extend(following for following, _ in node.next_functions)
    return False
