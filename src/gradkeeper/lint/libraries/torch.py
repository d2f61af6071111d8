"""torch itself, by full dotted names: functions over tensors, modes, saving, data, wrappers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Function,
    Instance,
    Labelled,
    LibraryClass,
    Method,
    StandIn,
    flatten,
    visible,
)
from gradkeeper.lint.interpreter.values import (
    NONE,
    Call,
    Condition,
    Constant,
    Count,
    Provenance,
    Unknown,
    Value,
)
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import amp, nn, optim
from gradkeeper.lint.libraries.data import (
    Loader,
    StatefulLoader,
    in_batches,
    sampler_in,
    share_out,
)
from gradkeeper.lint.libraries.datasets import batches_of, create, tensor_dataset
from gradkeeper.lint.libraries.gradients import (
    moved,
    retains,
    uses_gradient,
    weight_given,
    within_step,
)
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.nn import Module, StateDict, module_of
from gradkeeper.lint.libraries.parameters import parameters_in
from gradkeeper.lint.libraries.provenance import Modes
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.roles import as_module, copied
from gradkeeper.lint.libraries.tensors import (
    QUESTIONS,
    Finite,
    Grad,
    Param,
    Tensor,
    as_tensor,
    credit,
    mix,
)
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

CREATES = words(
    """randn rand zeros ones full empty arange randint tensor as_tensor linspace eye randperm
    from_numpy normal logspace complex FloatTensor LongTensor Tensor IntTensor BoolTensor
    zeros_like ones_like randn_like rand_like empty_like full_like bernoulli multinomial"""
)
CUT = words(
    """isnan isinf isfinite argmax argmin eq ne is_tensor numel allclose equal isin any all
    logical_and logical_or logical_not argsort unique"""
)
OF_OPTIMIZERS = words("step param_groups add_param_group")
OF_NETWORKS = words("parameters named_parameters train eval modules forward")
CLIPS = words("clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_grads_with_norm_")
WRAPS = words("DataParallel DistributedDataParallel FullyShardedDataParallel")


class GradMode(StandIn):
    """no_grad(), enable_grad(), inference_mode(), set_grad_enabled()."""

    __slots__ = ("before", "on")

    def __init__(self, on: Value) -> None:
        self.on = on
        self.before: list[bool] = []

    def enter(self, m: Machine) -> Value:
        modes = m.state(Modes)
        self.before.append(modes.grad)
        answer = self.on.truth(m)
        modes.grad = m.ask(answer) if isinstance(answer, Condition) else answer
        return self

    def leave(self, m: Machine) -> None:
        if self.before:
            m.state(Modes).grad = self.before.pop()

    def call(self, call: Call) -> Value:
        return InMode(self, call.args[0]) if call.args else self


class InMode(Value):
    """A function that runs in a mode of its own: `@torch.no_grad()`."""

    __slots__ = ("function", "mode")

    def __init__(self, mode: StandIn, function: Value) -> None:
        self.mode = mode
        self.function = function

    @property
    def text(self) -> str:
        return self.function.text

    def attribute(self, m: Machine, name: str) -> Value:
        return self.function.attribute(m, name)

    def of_object(self, m: Machine, instance: Instance, name: str) -> Value:
        inner = self.function
        bound = Method(inner, instance) if isinstance(inner, Function) else inner
        return instance.with_native(m, name, InMode(self.mode, bound))

    def call(self, call: Call) -> Value:
        self.mode.enter(call.m)
        try:
            return self.function.call(call)
        finally:
            self.mode.leave(call.m)


def _no_grad(call: Call) -> Value:
    mode = GradMode(Constant(False))
    return mode.call(call) if call.args and not isinstance(call.args[0], Constant) else mode


def _enable_grad(call: Call) -> Value:
    return GradMode(Constant(True))


def _set_grad(call: Call) -> Value:
    return GradMode(call.argument(0, "mode") or Constant(True))


class NoSync(StandIn):
    """model.no_sync(): backward calls inside exchange nothing between ranks."""

    __slots__ = ("before",)

    def __init__(self) -> None:
        self.before: list[bool] = []

    def enter(self, m: Machine) -> Value:
        modes = m.state(Modes)
        self.before.append(modes.unsynced)
        modes.unsynced = True
        return NONE

    def leave(self, m: Machine) -> None:
        if self.before:
            m.state(Modes).unsynced = self.before.pop()


def _data_loader(call: Call, kind: type[Loader] = Loader) -> Value:
    m = call.m
    data = (call.argument(0, "dataset") or NONE).resolve(m)
    batch = call.argument(1, "batch_size") or Constant(1)
    size: int | None = None
    known = data.length(m) if not isinstance(data, Unknown) else None
    if isinstance(known, Constant) and not isinstance(known, Count):
        if isinstance(known.value, int) and isinstance(batch, Constant):
            if isinstance(batch.value, int) and batch.value > 0:
                drop = call.kwargs.get("drop_last")
                drops = drop is not None and drop.truth(m) is True
                size = known.value // batch.value
                if known.value % batch.value and not drops:
                    size += 1
    # Nobody trains on nothing: what fills such a list was not followed.
    sampler = sampler_in(call.argument(3, "sampler")) or sampler_in(
        call.argument(4, "batch_sampler")
    )
    batches = None if call.argument(6, "collate_fn") else batches_of(data, batch)
    return kind(size or None, data, sampler, batches)


def stateful_loader(call: Call) -> Value:
    """torchdata's StatefulDataLoader(dataset, ...)."""
    return _data_loader(call, StatefulLoader)


def _clip(call: Call) -> Value:
    m = call.m
    target = call.argument(0, "parameters") or NONE
    keys = ("max_norm", "clip_value", "value")
    bound = call.argument(1) or next((call.kwargs[k] for k in keys if k in call.kwargs), None)
    clip(m, target, bound)
    return m.unknown("norm", data=True, fixed=False)


def clip(m: Machine, target: Value, bound: Value | None, *, aware: bool = False) -> None:
    """Gradients are cut down to a bound."""
    tape = m.state(RunTape)
    limit: float | None = None
    if isinstance(bound, Constant) and isinstance(bound.value, (int, float)):
        limit = float(bound.value)
    if isinstance(bound, amp.ScaleFactor):
        aware = True
    resolved = target.resolve(m)
    if isinstance(resolved, Unknown) and not resolved.sources():
        # Whose gradients these are is not known: with one optimizer, its own.
        if len(tape.owners) == 1:
            tape.note(m, ev.Clip, (tape.owners[0],), bound=limit, scale_aware=aware)
        return
    leaves, _ = parameters_in(m, target, "this clip")
    if leaves:
        tape.note(m, ev.Clip, leaves, bound=limit, scale_aware=aware)


def _backward(call: Call) -> Value:
    given = call.argument(0, "tensors") or NONE
    by = weight_given(call, place=1, name="grad_tensors")
    credit(call.m, mix_losses(call.m, given), divided_by=by, retains=retains(call))
    return NONE


def mix_losses(m: Machine, given: Value) -> Tensor:
    parts = [as_tensor(m, part) for part in given.held()] or [as_tensor(m, given)]
    made = mix(m, "losses", *parts)
    made.factor, made.reduction = parts[0].factor, parts[0].reduction
    made.scaler = parts[0].scaler
    return made


def _autograd_grad(call: Call) -> Value:
    m = call.m
    keeps = call.argument(4, "create_graph")
    if keeps is None or keeps.truth(m) is False:
        return m.unknown("gradients", data=True, fixed=False)
    inputs = call.argument(1, "inputs") or NONE
    for value in flatten([inputs]):
        tensor = as_tensor(m, value) if isinstance(value, (Tensor, Unknown)) else None
        if tensor is not None and tensor.leaf is not None:
            tensor.leaf.asked_for = True
    return mix(m, "gradients", *call.values())


def _save(call: Call) -> Value:
    m = call.m
    leaves: dict[Leaf, None] = {}
    optimizers: dict[RecordedOwner, None] = {}
    gradients = False
    given = call.argument(0, "obj") or NONE
    for element in flatten([given]):
        if isinstance(element, StateDict):
            leaves.update(dict.fromkeys(element.leaves))
            optimizers.update(dict.fromkeys(element.optimizers))
        elif module_of(element) is not None:
            leaves.update(dict.fromkeys(module_of(element).leaves()))  # type: ignore[union-attr]
        elif uses_gradient(element):
            gradients = True
    if leaves:
        path = "" if _may_load_optimizers(m) else _path(call.argument(1, "f"))
        owners = tuple(optimizers)
        note = m.state(RunTape).note
        note(m, ev.Save, leaves, optimizers=owners, gradients=gradients, path=path)
    return NONE


def _wrapped(call: Call, name: str) -> Value:
    """DistributedDataParallel and its like: the module itself, with something around it."""
    m = call.m
    given = (call.argument(0, "module") or NONE).resolve(m)
    module = module_of(given)
    if module is None and isinstance(given, Unknown):
        module = as_module(m, given)
    if module is None:
        return given
    if name in ("DistributedDataParallel", "FullyShardedDataParallel"):
        for leaf in atoms(module.leaves()):
            leaf.replicated = True
    return Wrapper(module, given)


class Wrapper(Module):
    """A module inside another one that only passes calls on."""

    __slots__ = ("inner",)

    def __init__(self, module: Module, inner: Value) -> None:
        super().__init__(None, module.label, seen=module.seen)
        self.inner = inner if not isinstance(inner, Unknown) else module
        self.children = {"module": self.inner}

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "module":
            return self.inner
        if name == "no_sync":
            return BuiltIn(name, lambda call: NoSync())
        if name in self.METHODS or name in nn.SAME:
            return Module.attribute(self, m, name)
        return self.inner.attribute(m, name)

    def call(self, call: Call) -> Value:
        return self.inner.call(call)


def _foreach(call: Call, name: str) -> Value:
    """torch._foreach_zero_(grads) and its like: one call in place of a loop over parameters."""
    m = call.m
    given = call.args[0] if call.args else NONE
    for element in flatten([given]):
        if isinstance(element, Grad):
            if name == "_foreach_zero_":
                tape = m.state(RunTape)
                tape.note(m, ev.Zero, element.of.leaves, to_none=False, within=within_step(tape))
            else:
                m.state(RunTape).note(m, ev.Adjust, element.of.leaves)
        elif isinstance(element, Param):
            moved(m, element.leaves, tuple(call.args[1:]))
    return NONE


def _averaged(call: Call) -> Value:
    """swa_utils.AveragedModel: a copy that nobody trains."""
    given = (call.argument(0, "model") or NONE).resolve(call.m)
    copy = copied(call.m, given)
    return Averaged(copy)


class Averaged(Module):
    __slots__ = ("copy",)

    def __init__(self, copy: Value) -> None:
        super().__init__(None, "averaged")
        self.copy = copy
        self.children = {"module": copy}

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "update_parameters":
            return BuiltIn(name, lambda call: NONE)
        return Module.attribute(self, m, name)

    def call(self, call: Call) -> Value:
        return self.copy.call(call)


def _first(call: Call) -> Value:
    return call.args[0] if call.args else NONE


def _loaded(call: Call) -> Value:
    return nn.LoadedState(_path(call.argument(0, "f")))


def _may_load_optimizers(m: Machine) -> bool:
    """Some line of the program loads the state of what is no network, if only in another run."""
    asked = [found for found in m.facts.uses.values() if "load_state_dict" in found]
    return any(found & OF_OPTIMIZERS or not found & OF_NETWORKS for found in asked)


def _path(value: Value | None) -> str:
    """Stands for a file: the same wherever the same name is written."""
    return repr(value.key) if value is not None and value.fixed else ""


def _setting(text: str) -> Callable[[Call], Value]:
    """A fact about the machine that the program runs on: the same throughout a run."""

    def work(call: Call) -> Value:
        return Unknown(("machine", text), text)

    return work


def _function(name: str) -> Value:
    """Any other function of torch's: a tensor made of its arguments."""

    def work(call: Call) -> Value:
        made = mix(call.m, name, *call.values())
        first = call.args[0] if call.args else None
        if isinstance(first, Tensor) and name in ("mean", "sum", "squeeze", "clamp", "abs"):
            made.factor = first.factor
        if name in ("mean", "sum"):
            made.reduction = "mean" if name == "mean" else "sum"
        if name in ("stack", "cat", "sum"):
            for argument in flatten(call.args[:1]):
                if isinstance(argument, Tensor):
                    made.factor = argument.factor
        return made

    return BuiltIn(name, work)


def _is_class(name: str) -> bool:
    return name[:1].isupper()


EXACT: dict[str, Callable[[Call], Value]] = {
    "torch.no_grad": _no_grad,
    "torch.inference_mode": _no_grad,
    "torch.autograd.no_grad": _no_grad,
    "torch.enable_grad": _enable_grad,
    "torch.set_grad_enabled": _set_grad,
    "torch.autograd.set_grad_enabled": _set_grad,
    "torch.autocast": amp.make_autocast,
    "torch.amp.autocast": amp.make_autocast,
    "torch.cuda.amp.autocast": amp.make_autocast,
    "torch.cpu.amp.autocast": amp.make_autocast,
    "torch.amp.autocast_mode.autocast": amp.make_autocast,
    "torch.amp.GradScaler": amp.make_scaler,
    "torch.amp.grad_scaler.GradScaler": amp.make_scaler,
    "torch.GradScaler": amp.make_scaler,
    "torch.cuda.amp.GradScaler": amp.make_scaler,
    "torch.cuda.amp.grad_scaler.GradScaler": amp.make_scaler,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": amp.make_scaler,
    "torch.autograd.backward": _backward,
    "torch.autograd.grad": _autograd_grad,
    "torch.save": _save,
    "torch.load": _loaded,
    "torch.hub.load_state_dict_from_url": _loaded,
    "torch.nn.Parameter": nn.make_parameter,
    "torch.nn.parameter.Parameter": nn.make_parameter,
    "torch.utils.data.DataLoader": _data_loader,
    "torch.utils.data.dataloader.DataLoader": _data_loader,
    "torch.utils.data.TensorDataset": tensor_dataset,
    "torch.utils.data.BatchSampler": in_batches,
    "torch.utils.data.sampler.BatchSampler": in_batches,
    "torch.utils.data.DistributedSampler": share_out,
    "torch.utils.data.distributed.DistributedSampler": share_out,
    "torch.optim.swa_utils.AveragedModel": _averaged,
    "torch.compile": _first,
    "torch.jit.script": _first,
    "torch.cuda.CUDAGraph": lambda call: CapturedGraph(),
    "torch.cuda.is_available": _setting("torch.cuda.is_available()"),
    "torch.cuda.device_count": _setting("torch.cuda.device_count()"),
    "torch.distributed.is_initialized": _setting("torch.distributed.is_initialized()"),
    "torch.distributed.is_available": _setting("torch.distributed.is_available()"),
    "torch.distributed.get_rank": _setting("torch.distributed.get_rank()"),
    "torch.distributed.get_world_size": _setting("torch.distributed.get_world_size()"),
}


def _variable(call: Call) -> Value:
    """torch.autograd.Variable: what it is given, cut off from where it came from."""
    wants = call.kwargs.get("requires_grad") or call.argument(1)
    given = call.args[0] if call.args else NONE
    if wants is not None and wants.truth(call.m) is True:
        made = Tensor("variable")
        made.collect()
        return made
    return given.attribute(call.m, "detach").call(Call(call.m)) if given.sources() else given


EXACT["torch.autograd.Variable"] = _variable
EXACT["torch.autograd.variable.Variable"] = _variable


def find(m: Machine, name: str) -> Value | None:
    """What a name that begins with `torch` stands for."""
    work = EXACT.get(name)
    last = name.rpartition(".")[2]
    if work is not None:
        return LibraryClass(name, work) if _is_class(last) else BuiltIn(name, work)
    if name in ("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"):
        return nn.MODULE
    if last in CLIPS and name.startswith("torch.nn.utils"):
        return BuiltIn(name, _clip)
    if name.startswith("torch.optim."):
        return _optim(name, last)
    if last in WRAPS:
        return LibraryClass(name, lambda call: _wrapped(call, last))
    if name.startswith("torch.nn.functional"):
        if last in nn.FUNCTIONAL_LOSSES:
            return BuiltIn(
                name, lambda call: nn.loss_of(call.m, call.kwargs.get("reduction"), call)
            )
        return _function(last) if last != "functional" else None
    if name.startswith("torch.nn.utils."):
        if last in ("weight_norm", "spectral_norm", "remove_weight_norm"):
            return BuiltIn(name, _first)
        return None
    if name.startswith("torch.nn.init.") and last.endswith("_"):
        return BuiltIn(name, _first)  # other numbers in the same parameter
    if name.startswith("torch.nn.") and _is_class(last):
        return LibraryClass(name, nn.make_layer(last))
    if name.startswith("torch.distributions."):
        if _is_class(last):
            return LibraryClass(name, lambda call: Distribution(call.values()))
        return _function(last) if last != "distributions" else None
    if name.startswith("torch._foreach_"):
        return BuiltIn(name, lambda call: _foreach(call, last))
    if name.count(".") == 1:
        return _top(name, last)
    return None


def _optim(name: str, last: str) -> Value | None:
    if name.startswith("torch.optim.lr_scheduler.") and _is_class(last.lstrip("_")):
        return LibraryClass(name, lambda call: optim.schedule(call, last))
    if name.startswith("torch.optim.swa_utils."):
        if last == "SWALR":
            return LibraryClass(name, lambda call: optim.schedule(call, last))
        return BuiltIn(name, lambda call: NONE)
    if _is_class(last):
        return LibraryClass(name, lambda call: optim.build_of_torch(call, last))
    return None


MODULES = words(
    """nn optim autograd utils cuda amp distributed jit hub backends random fft linalg special
    distributions onnx multiprocessing quantization fx func profiler cpu mps testing version"""
)


def _top(name: str, last: str) -> Value | None:
    if last in MODULES:
        return None
    if last in CREATES:
        return BuiltIn(name, lambda call: create(call, last))
    if last in CUT:
        return BuiltIn(name, lambda call: _cut(call, last))
    if last in ("manual_seed", "set_default_dtype", "use_deterministic_algorithms"):
        return BuiltIn(name, lambda call: NONE)
    if last == "inf":
        return Constant(float("inf"))
    if last in DTYPES:
        return Unknown(("torch", last), name)
    return _function(last)


DTYPES = words(
    """float32 float64 float16 bfloat16 half float double int8 int16 int32 int64 long int uint8 bool
    channels_last contiguous_format device Size dtype __version__ strided"""
)


def _cut(call: Call, name: str) -> Value:
    if name in QUESTIONS:
        return Finite(name, call.args[0] if call.args else NONE)
    asked = next((argument for argument in call.args if isinstance(argument, Finite)), None)
    if asked is not None:
        # Put together with another question of this kind, or asked of all elements.
        return asked
    return call.m.unknown(f"{name}()", data=True, fixed=False)


class CapturedGraph(Labelled):
    """A CUDA graph: what was captured once runs again, into gradients that lie where they lay."""

    __slots__ = ()

    def __init__(self) -> None:
        self.label = "graph"

    @visible
    def replay(self, call: Call) -> Value:
        call.m.doubt("a CUDA graph runs what it captured, which is not followed")
        return NONE


class Distribution(StandIn):
    """torch.distributions: what it is made of flows into densities, not into samples."""

    __slots__ = ("of",)

    def __init__(self, of: list[Value]) -> None:
        self.of = of

    def sources(self) -> Provenance:
        found: Provenance = frozenset()
        for iterable in self.of:
            found |= iterable.sources()
        return found

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("sample", "sample_n"):
            return BuiltIn(name, lambda call: mix(m, name, *self.of).without_history())
        if name in ("log_prob", "entropy", "rsample", "cdf", "kl_divergence", "expand"):
            return BuiltIn(name, lambda call: mix(m, name, *self.of, *call.values()))
        return mix(m, name, *self.of)
