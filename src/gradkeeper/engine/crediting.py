"""One backward: at its factor, in its precision, into its owner's parameters only."""

from torch import Tensor

from gradkeeper.engine.errors import LossError
from gradkeeper.engine.gradients import sharded
from gradkeeper.engine.leftovers import cleared
from gradkeeper.engine.owner import Owner
from gradkeeper.engine.reach import Witness
from gradkeeper.engine.weights import Factor
from gradkeeper.model import Site
from gradkeeper.source_line import NOWHERE


class Crediting:
    """The backward calls of one window."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._witness = Witness()
        self.site = NOWHERE
        """Of the last one."""

    def run(self, loss: Tensor, factor: Factor, *, retain_graph: bool | None, first: bool) -> None:
        """`first`: no parameter of the owner has a gradient yet."""
        owner = self._owner
        before = self._witness.mark()
        inputs = None if owner.alone else self._inputs()
        owner.precision.backward(
            loss, factor, owner.device, retain_graph=retain_graph, inputs=inputs
        )
        if self._witness.mark() != before or sharded(owner.parameters[:1]):
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
