"""The backward of a loss that weighs nothing, run because the other ranks wait for it."""

from torch import Tensor

from gradkeeper.engine.crediting import Crediting


def backward_of_nothing(
    crediting: Crediting, loss: Tensor, leaves: list[Tensor], *, retain_graph: bool | None
) -> None:
    """Zeros reach the leaves whatever the graph makes of them: 0 times inf or NaN is NaN."""
    hooks = [leaf.register_hook(_zeros) for leaf in leaves]
    try:
        crediting.run_unweighted(loss, retain_graph=retain_graph)
    finally:
        for hook in hooks:
            hook.remove()


def _zeros(gradient: Tensor) -> Tensor:
    return gradient * 0 if gradient.is_sparse else gradient.new_zeros(gradient.shape)
