"""One backward: at its factor, in its precision, into its owner's parameters only, and whether it
reached any of them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from gradkeeper.engine.errors import LossError
from gradkeeper.engine.gradients import any_sharded
from gradkeeper.engine.journal import warn_at
from gradkeeper.engine.leftovers import cleared
from gradkeeper.engine.loss_weights import LossFactor
from gradkeeper.engine.owner import Owner
from gradkeeper.model import Site
from gradkeeper.source_line import NOWHERE
from gradkeeper.torch_private import is_batch_norm

# Whether a backward reached any of the owner's parameters.


CreditMark = tuple[int, int] | None


class CreditedParameter:
    """One parameter that is usually credited: two reads tell, in place of a look at all of them."""

    def __init__(self) -> None:
        self._parameter: Tensor | None = None

    def mark(self) -> CreditMark:
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
    wanted = {id(parameter) for parameter in parameters}
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


# The backward itself.


class Crediting:
    """The backward calls of one window."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._witness = CreditedParameter()
        self.site = NOWHERE
        """Of the last one."""

    def run(
        self, loss: Tensor, factor: LossFactor, *, retain_graph: bool | None, first: bool
    ) -> None:
        """`first`: no parameter of the owner has a gradient yet."""
        owner = self._owner
        before = self._witness.mark()
        inputs = None if owner.alone else self._inputs()
        owner.precision.backward(
            loss, factor, owner.device, retain_graph=retain_graph, inputs=inputs
        )
        if self._witness.mark() != before or any_sharded(owner.parameters[:1]):
            return  # what waits in unsharded parameters shows at the window's end
        if not self._witness.finds_credit(loss, owner.parameters, first=first):
            raise LossError(
                f"this loss reaches no parameter of the optimizer of {owner.name!r}: its graph was "
                "cut (detach, no_grad, .item()), or it belongs to another owner"
            )

    @property
    def gone(self) -> bool:
        """Whether what was credited may have been cleared."""
        return self._witness.gone

    def lost(self, here: Site) -> str | None:
        """How the gradients that were credited so far are gone, if they are: all of them, since
        one parameter's may be cleared on purpose."""
        if not self.gone or any(p.grad is not None for p in self._owner.parameters):
            return None
        return cleared(self.site, here)

    def run_unweighted(self, loss: Tensor, *, retain_graph: bool | None) -> None:
        """Of a loss that adds nothing, and whose graph other ranks wait for."""
        self._owner.precision.backward(
            loss, 0.0, self._owner.device, retain_graph=retain_graph, inputs=None
        )

    def _inputs(self) -> list[Tensor]:
        trainable = [p for p in self._owner.parameters if p.requires_grad]
        if not trainable:
            name = self._owner.name
            raise LossError(f"no parameter of the optimizer of {name!r} requires a gradient")
        return trainable


# Layers that couple the rows of a batch: with them, a window is not one big batch.


def warn_of_coupled_layers(model: nn.Module, site: Site) -> None:
    coupled = (
        name for name, module in model.named_modules() if is_batch_norm(module) and module.training
    )
    first = next(coupled, None)
    if first is not None:
        warn_at(
            site,
            f"layer {first!r} normalises each micro-batch by itself: a window of several is not "
            "the same as one big batch. GroupNorm or LayerNorm is, and so is BatchNorm in eval()",
        )


# The backward of a loss that weighs nothing, run because the other ranks wait for it.


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
    if gradient.is_sparse:
        return gradient * 0
    # Of a shard, a shard.
    made: Tensor = torch.zeros_like(gradient)
    return made if hasattr(gradient, "to_local") else gradient.new_zeros(gradient.shape)
