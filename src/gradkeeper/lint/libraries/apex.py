"""apex: amp that scales and unscales around a backward, fused optimizers, its own wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Tuple
from gradkeeper.lint.interpreter.objects import BuiltIn, LibraryClass
from gradkeeper.lint.interpreter.values import NONE, Call, Value
from gradkeeper.lint.libraries import optim, torch
from gradkeeper.lint.libraries.nn import StateDict
from gradkeeper.lint.libraries.optim import Optimizer
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.roles import as_optimizer
from gradkeeper.lint.libraries.standard_library import NullContext
from gradkeeper.lint.libraries.tensors import Tensor, as_tensor, credit

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine


def _initialize(call: Call) -> Value:
    """initialize(models, optimizers): what it was given, in order."""
    models, optimizers = call.argument(0, "models"), call.argument(1, "optimizers")
    given = [group for group in (models, optimizers) if group is not None]
    return given[0] if len(given) == 1 else Tuple(given)


def _scale_loss(call: Call) -> Value:
    """with scale_loss(loss, optimizer) as scaled: unscaled again when the block is left."""
    return NullContext(_with_a_scale(call))


def _with_a_scale(call: Call) -> Tensor:
    """A loss that apex sends back: in half precision, too, it has a scale."""
    scaled = as_tensor(call.m, call.argument(0, "loss") or NONE).like(call.m)
    scaled.autocast = None
    return scaled


def _master_params(call: Call) -> Value:
    of = as_optimizer(call.m, call.argument(0, "optimizer") or NONE)
    if of is None or not of.owner.known:
        return call.m.unknown("parameters")
    return Params(tuple(of.owner.leaves), f"master_params({of.text})")


def _half_optimizer(call: Call) -> Value:
    """FP16_Optimizer(optimizer): the optimizer, with a backward and a clip of its own."""
    of = as_optimizer(call.m, call.argument(0, "init_optimizer") or NONE)
    return HalfOptimizer(of) if of is not None else call.m.unknown("optimizer")


class HalfOptimizer(Optimizer):
    __slots__ = ()

    def __init__(self, of: Optimizer) -> None:
        Optimizer.__init__(self, of.owner, of.kind)
        self.named_by = of.named_by

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "backward":
            return BuiltIn(name, self._backward)
        if name == "clip_master_grads":
            return BuiltIn(name, self._clip)
        if name == "update_master_grads":
            return BuiltIn(name, lambda call: NONE)
        return Optimizer.attribute(self, m, name)

    def _backward(self, call: Call) -> Value:
        credit(call.m, _with_a_scale(call))
        return NONE

    def _clip(self, call: Call) -> Value:
        params = Params(tuple(self.owner.leaves), self.text)
        torch.clip(call.m, params, call.argument(0, "max_norm"), aware=True)
        return call.m.unknown("norm", data=True, fixed=False)


def _same(call: Call) -> Value:
    return call.args[0] if call.args else NONE


EXACT = {
    "apex.amp.initialize": _initialize,
    "apex.amp.scale_loss": _scale_loss,
    "apex.amp.master_params": _master_params,
    "apex.amp.state_dict": lambda call: StateDict(),
    "apex.amp.load_state_dict": lambda call: NONE,
    "apex.parallel.convert_syncbn_model": _same,
}


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `apex` stands for."""
    last = name.rpartition(".")[2]
    work = EXACT.get(name)
    if work is not None:
        return BuiltIn(name, work)
    if last == "FP16_Optimizer":
        return LibraryClass(name, _half_optimizer)
    if name.startswith("apex.optimizers.") and last[:1].isupper():
        return LibraryClass(name, lambda call: optim.build(call, last))
    if name.startswith("apex.parallel.") and last in torch.WRAPS:
        return torch.find(m, f"torch.nn.parallel.{last}")
    if last in ("FusedLayerNorm", "MixedFusedLayerNorm", "FusedRMSNorm", "SyncBatchNorm"):
        like = {"SyncBatchNorm": "SyncBatchNorm"}.get(last, "LayerNorm")
        return torch.find(m, f"torch.nn.{like}")
    return None
