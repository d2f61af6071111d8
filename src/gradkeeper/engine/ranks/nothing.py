"""The backward of a loss that weighs nothing, run because the other ranks wait for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from gradkeeper.engine.crediting import Crediting


def backward_of_nothing(
    crediting: Crediting, loss: Tensor, leaves: list[Tensor], *, retain_graph: bool | None
) -> None:
    with only_zeros_reach(leaves):
        crediting.run_unweighted(loss, retain_graph=retain_graph)


@contextmanager
def only_zeros_reach(leaves: list[Tensor]) -> Iterator[None]:
    """Whatever the graph makes of them: 0 times inf or NaN is NaN."""
    hooks = [leaf.register_hook(_zeros) for leaf in leaves]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _zeros(gradient: Tensor) -> Tensor:
    return gradient * 0 if gradient.is_sparse else gradient.new_zeros(gradient.shape)
