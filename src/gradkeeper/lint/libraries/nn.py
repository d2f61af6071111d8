"""torch.nn: modules, layers, losses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, List, Tuple
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Function,
    Instance,
    LibraryClass,
    StandIn,
    flatten,
    visible,
)
from gradkeeper.lint.interpreter.values import (
    NONE,
    Call,
    Condition,
    Constant,
    Either,
    Provenance,
    Unknown,
    Value,
)
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries.gradients import takes_over
from gradkeeper.lint.libraries.leaves import Leaf, atoms, leaves_in
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.provenance import DISK, Modes, Pass
from gradkeeper.lint.libraries.recording import RecordedOwner, RunTape
from gradkeeper.lint.libraries.tensors import Param, Tensor, mix
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.frames import Loop
    from gradkeeper.lint.interpreter.machine import Machine

WEIGHTY = words(
    """Linear Bilinear LazyLinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
    ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d Embedding EmbeddingBag LSTM GRU RNN LSTMCell
    GRUCell RNNCell BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d
    LazyBatchNorm2d LayerNorm GroupNorm Transformer TransformerEncoder TransformerDecoder
    TransformerEncoderLayer TransformerDecoderLayer MultiheadAttention PReLU RMSNorm
    AdaptiveLogSoftmaxWithLoss"""
)
COUPLED = words("BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm LazyBatchNorm1d LazyBatchNorm2d")
CONTAINERS = words("Sequential ModuleList ModuleDict ParameterList ParameterDict")
LOSSES = words(
    """CrossEntropyLoss NLLLoss MSELoss L1Loss SmoothL1Loss HuberLoss BCELoss BCEWithLogitsLoss
    KLDivLoss CosineEmbeddingLoss MarginRankingLoss TripletMarginLoss HingeEmbeddingLoss CTCLoss
    MultiMarginLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss SoftMarginLoss PoissonNLLLoss
    GaussianNLLLoss TripletMarginWithDistanceLoss"""
)
FUNCTIONAL_LOSSES = words(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits kl_div cosine_embedding_loss margin_ranking_loss
    triplet_margin_loss hinge_embedding_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss soft_margin_loss ctc_loss poisson_nll_loss gaussian_nll_loss
    triplet_margin_with_distance_loss"""
)
SAME = words(
    """to cuda cpu half float double bfloat16 train eval apply compile share_memory to_empty xpu
    type gradient_checkpointing_enable gradient_checkpointing_disable enable_input_require_grads"""
)


SIZES = words(
    """in_features out_features in_channels out_channels kernel_size stride padding output_padding
    dilation groups padding_mode num_features eps momentum affine track_running_stats
    normalized_shape elementwise_affine num_embeddings embedding_dim padding_idx input_size
    hidden_size num_layers batch_first bidirectional embed_dim num_heads head_dim p inplace"""
)
"""What PyTorch's own layers know of themselves beside their parameters."""


class Module(StandIn):
    """A network or a layer: parameters of its own, and other modules inside it."""

    __slots__ = ("by_key", "children", "label", "me", "own", "replicated", "seen", "training")

    def __init__(self, own: Leaf | None, label: str = "", *, seen: bool = True) -> None:
        self.own = own
        self.label = label
        self.seen = seen
        """The source shows what it is made of; else it may hold anything."""
        self.children: dict[str, Value] = {}
        self.me: Value = self
        """The object of the program whose library half this is."""
        self.replicated = False
        self.training = True
        self.by_key = False
        """A loop over it gives names, as with any dictionary."""

    @property
    def text(self) -> str:
        return self.label or "a module"

    def named(self, m: Machine, name: str) -> None:
        if not self.label:
            self.label = name
            if self.own is not None and self.own.name in ("", "module"):
                self.own.name = name

    def leaves(self) -> list[Leaf]:
        found: dict[Leaf, None] = {}
        self.gather(found, set())
        return list(found)

    def gather(self, found: dict[Leaf, None], passed: set[int]) -> None:
        """Its parameters and those inside it; a network may be inside itself."""
        if id(self) in passed:
            return
        passed.add(id(self))
        own = self.own
        if own is not None and not own.parts:
            found[own] = None
        elif own is not None:
            found.update(dict.fromkeys(atoms((own,))))
        for child in self.children.values():
            if isinstance(child, Module):  # as nearly all are
                child.gather(found, passed)
            else:
                _gather_from(child, found, passed)

    def sources(self) -> Provenance:
        return frozenset(self.leaves())

    def takes_part(self) -> bool:
        return not self.seen or bool(self.leaves())

    def truth(self, m: Machine) -> bool | Condition:
        return True

    def attribute(self, m: Machine, name: str) -> Value:
        if name in self.children:
            return self.children[name]
        if name in SAME:
            return BuiltIn(name, lambda call: self._same(call, name), of=self)
        if name in self.METHODS:
            return StandIn.attribute(self, m, name)
        if name == "children":
            return BuiltIn(name, self.list_children)
        if name == "__init__":
            return BuiltIn(name, lambda call: NONE)
        if name == "__call__":
            return BuiltIn(name, self.call)
        if name == "training":
            return Constant(self.training)
        if name == "module" and self.replicated:
            return self.me
        return self.part(m, name)

    def _same(self, call: Call, name: str) -> Value:
        if name == "train":
            on = call.argument(0, "mode")
            self.training = on is None or on.truth(call.m) is not False
        elif name == "eval":
            self.training = False
        if name in ("train", "eval"):
            for leaf in atoms(self.leaves()):
                leaf.resting = not self.training
        return self.me

    def part(self, m: Machine, name: str) -> Value:
        """Something inside a network that was not seen: a module, if it is used as one."""
        if self.me is self and self.seen and name in SIZES:
            return m.unknown(f"{self.text}.{name}")
        return m.attribute_of(self.me, name)

    def child(self, name: str) -> Module:
        """A part of a network that was not seen, told apart from the rest."""
        found = self.children.get(name)
        if isinstance(found, Module):
            return found
        if self.own is None:
            made = Module(None, name, seen=False)
        else:
            rest = [leaf.split(("part", name), name, both=False) for leaf in atoms([self.own])]
            part = Leaf(f"{self.label or 'module'}.{name}")
            part.parts = tuple(yes for yes, _ in rest)
            own = Leaf(self.own.name)
            own.parts = tuple(no for _, no in rest)
            self.own = own
            made = Module(part, name, seen=False)
        self.children[name] = made
        return made

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        if self.me is self:
            m.write(m.attributes_of(self), name, value)
        if name == "require_backward_grad_sync":
            answer = value.truth(m)
            if isinstance(answer, Condition):
                answer = m.ask(answer)
            m.state(Modes).unsynced = not answer
            return
        if name == "training":
            return
        if holds_parameters(value):
            # What had this name is gone: a part that was not seen, or a layer's own (tied weights).
            replaces = not self.seen or name in ("weight", "bias")
            if replaces and self.own is not None and name not in self.children:
                self.child(name)
            m.must_be_sure()
            self.children[name] = value
            _take_name(value, f"{self.label}.{name}" if self.label else name)
        elif name in self.children:
            m.must_be_sure()
            del self.children[name]
        m.state(Parts).put(self, name, value)

    def takes_in(self, name: str, part: Module) -> None:
        """An attribute is, or under some setting may be, this network."""
        self.children[f"{name}?" if name in self.children else name] = part

    def delete_attribute(self, m: Machine, name: str) -> None:
        self.children.pop(name, None)

    def call(self, call: Call) -> Value:
        modes = call.m.state(Modes)
        outermost = modes.passing is None
        if outermost:
            modes.passing = Pass()
        try:
            result = self._called(call, modes)
        finally:
            if outermost:
                modes.passing = None
        return self._noted(call.m, result) if outermost else result

    def _called(self, call: Call, modes: Modes) -> Value:
        m = call.m
        if isinstance(self.me, Instance):
            forward = self.me.cls.member("forward")
            if isinstance(forward, Function):
                whole = Call(m, [self.me, *call.args], call.kwargs, open=call.open)
                return m.run_function(forward, whole)
            if forward is not None and not isinstance(forward, Unknown):
                return forward.of_object(m, self.me, "forward").call(call)  # @torch.autocast(...)
        made = mix(m, f"{self.text}()", self, *call.values())
        if modes.grad and modes.passing is not None and made.flow:
            made.others |= {modes.passing}
            modes.passing.through(self.leaves())
        return made

    def _noted(self, m: Machine, result: Value) -> Value:
        """A loss may be computed from it now: zeroing between here and backward comes late."""
        modes = m.state(Modes)
        if modes.grad:
            modes.unsynced_forward = modes.unsynced
        if modes.grad and not m.half_taken and m.loops:
            m.state(RunTape).note(m, ev.Forward, self.leaves())
        return result

    def item(self, m: Machine, key: Value) -> Value:
        if self.seen and self.children:
            values = list(self.children.values())
            if isinstance(key, Constant) and isinstance(key.value, str):
                found = self.children.get(key.value)
                if found is not None:
                    return found
            return List(values).item(m, key)
        return m.unknown(f"{self.text}[{key.text}]", self, key, part=True)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        if isinstance(key, Constant):
            self.set_attribute(m, self._name_at(key), value)

    def _name_at(self, key: Constant) -> str:
        if isinstance(key.value, int) and key.value < 0:
            names = list(self.children)
            if -key.value <= len(names):
                return names[key.value]
        return str(key.value)

    def iterate(self, m: Machine) -> Iterator[Value]:
        if not self.seen:
            yield m.unknown(f"{self.text}[i]", self, element=True)
        elif self.by_key:
            yield from map(Constant, tuple(self.children))
        else:
            yield from tuple(self.children.values())

    def endless(self) -> bool:
        return False

    def length(self, m: Machine) -> Value:
        return Constant(len(self.children)) if self.seen else m.unknown(f"len({self.text})", self)

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        if self.seen and isinstance(element, Constant):
            return str(element.value) in self.children
        return Condition("in", element, self)

    # -- what a program finds on every module

    def _is_asked(self) -> None:
        """Asked for its parameters, what has a base that is not seen shows that it is a network:
        it has some of its own, and they are the same each time."""
        if not self.seen and self.own is None and not self.leaves():
            self.own = Leaf(self.label or "module")

    def _params(self, label: str, *, with_names: bool = False) -> Params:
        self._is_asked()
        return Params(tuple(self.leaves()), f"{self.text}.{label}()", with_names)

    @visible
    def parameters(self, call: Call) -> Value:
        return self._params("parameters")

    @visible
    def named_parameters(self, call: Call) -> Value:
        return self._params("named_parameters", with_names=True)

    @visible
    def zero_grad(self, call: Call) -> Value:
        self._is_asked()
        leaves = self.leaves()
        if not leaves:
            # Nobody clears a network without any: they are set where nobody looks.
            call.m.doubt("a network is cleared whose parameters are not seen")
        zero(call.m, leaves, call.argument(0, "set_to_none"))
        return NONE

    @visible
    def requires_grad_(self, call: Call) -> Value:
        Param(self.leaves())._set_requires_grad(call.m, call.argument(0, "requires_grad"))
        return self.me

    @visible
    def modules(self, call: Call) -> Value:
        if not self.seen or not self.children:
            return List([self.me], open=not self.seen)
        return List([self.me, *self.children.values()])

    @visible
    def named_children(self, call: Call) -> Value:
        return List([Tuple([Constant(k), v]) for k, v in self.children.items()], not self.seen)

    @visible
    def named_modules(self, call: Call) -> Value:
        return self.named_children(call)

    def list_children(self, call: Call) -> Value:
        return List(list(self.children.values()), open=not self.seen)

    @visible
    def add_module(self, call: Call) -> Value:
        name, value = call.argument(0, "name"), call.argument(1, "module")
        if isinstance(name, Constant) and value is not None:
            self.me.set_attribute(call.m, str(name.value), value)
        elif value is not None:
            self.me.set_attribute(call.m, f"part{len(self.children)}", value)
        return NONE

    @visible
    def register_module(self, call: Call) -> Value:
        return self.add_module(call)

    @visible
    def register_parameter(self, call: Call) -> Value:
        return self.add_module(call)

    @visible
    def register_buffer(self, call: Call) -> Value:
        name, value = call.argument(0, "name"), call.argument(1, "tensor")
        if isinstance(name, Constant) and isinstance(self.me, Instance) and value is not None:
            self.me.attributes[str(name.value)] = value
        return NONE

    @visible
    def append(self, call: Call) -> Value:
        for argument in call.args:
            self.set_attribute(call.m, str(len(self.children)), argument)
        return self.me

    @visible
    def extend(self, call: Call) -> Value:
        for module in call.m.list_of(call.args[0]).values if call.args else ():
            self.set_attribute(call.m, str(len(self.children)), module)
        return self.me

    def augment(self, m: Machine, sign: str, change: Value) -> Value | None:
        """`layers += [layer]`."""
        if sign != "+":
            return None
        return self.extend(Call(m, [change]))

    @visible
    def insert(self, call: Call) -> Value:
        if len(call.args) > 1:
            self.set_attribute(call.m, f"inserted{len(self.children)}", call.args[1])
        return NONE

    @visible
    def update(self, call: Call) -> Value:
        if call.args and isinstance(call.args[0], Dict):
            for key, value in call.args[0].values.values():
                if isinstance(key, Constant):
                    self.set_attribute(call.m, str(key.value), value)
        return NONE

    @visible
    def keys(self, call: Call) -> Value:
        return List([Constant(name) for name in self.children])

    @visible
    def values(self, call: Call) -> Value:
        return List(list(self.children.values()))

    @visible
    def items(self, call: Call) -> Value:
        return List([Tuple([Constant(k), v]) for k, v in self.children.items()])

    @visible
    def state_dict(self, call: Call) -> Value:
        keeps = call.kwargs.get("keep_vars")
        if keeps is not None and keeps.truth(call.m) is True:
            return ParametersByName(tuple(self.leaves()))
        return StateDict(tuple(self.leaves()))

    @visible
    def load_state_dict(self, call: Call) -> Value:
        m = call.m
        state = call.argument(0, "state_dict") or NONE
        held = state.resolve(m)
        if isinstance(held, StateDict) and set(atoms(held.leaves)) - set(atoms(self.leaves())):
            takes_over(m.state(RunTape), self.leaves())
        disk = not isinstance(held, (StateDict, Dict))
        path = held.path if isinstance(held, LoadedState) else ""
        m.state(RunTape).note(
            m, ev.Restore, self.leaves(), disk=disk and from_disk(state), path=path
        )
        return NONE

    @visible
    def forward(self, call: Call) -> Value:
        return mix(call.m, f"{self.text}()", self, *call.values())


class Parts:
    """Unknown values that modules hold: what turns out to be a network is a part of them."""

    def __init__(self) -> None:
        self._networks: dict[Hashable, Module] = {}
        self._holders: dict[Hashable, list[tuple[Module, str]]] = {}

    def put(self, whole: Module, name: str, value: Value) -> None:
        for side in _sides(value):
            known = self._networks.get(side.key)
            if known is None:
                self._holders.setdefault(side.key, []).append((whole, name))
            else:
                whole.takes_in(name, known)

    def turns_out(self, value: Unknown, network: Module) -> None:
        self._networks[value.key] = network
        for whole, name in self._holders.pop(value.key, ()):
            now = whole.me.attributes.get(name) if isinstance(whole.me, Instance) else None
            still = now is not None and any(side.key == value.key for side in _sides(now))
            if still:
                whole.takes_in(name, network)


def _sides(value: Value) -> list[Unknown]:
    """The unknown values that a value is, or may be."""
    if isinstance(value, Either):
        return [*_sides(value.yes), *_sides(value.no)]
    return [value] if isinstance(value, Unknown) else []


class StateDict(StandIn):
    """What state_dict() gives: a copy of weights, or of what an optimizer remembers."""

    __slots__ = ("leaves", "optimizers")

    def __init__(
        self, leaves: tuple[Leaf, ...] = (), optimizers: tuple[RecordedOwner, ...] = ()
    ) -> None:
        self.leaves = leaves
        self.optimizers = optimizers

    def endless(self) -> bool:
        return False

    def iterate(self, m: Machine) -> Iterator[Value]:
        yield m.unknown("a name", fixed=False)


class ParametersByName(StateDict):
    """With `keep_vars=True`, no copy: the parameters themselves, with their gradients."""

    __slots__ = ()

    @visible
    def values(self, call: Call) -> Value:
        return Params(self.leaves, "a network's state", one_shot=False)

    @visible
    def items(self, call: Call) -> Value:
        return Params(self.leaves, "a network's state", with_names=True, one_shot=False)


class LoadedState(StandIn):
    """What torch.load() gives: state from a file."""

    __slots__ = ("path",)

    def __init__(self, path: str = "") -> None:
        self.path = path

    @property
    def text(self) -> str:
        return "checkpoint"

    @property
    def fixed(self) -> bool:
        return False

    def sources(self) -> Provenance:
        return frozenset((DISK,))

    def item(self, m: Machine, key: Value) -> Value:
        return self

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("get", "pop", "copy"):
            return BuiltIn(name, lambda call: self)
        return Value.attribute(self, m, name)

    def contains(self, m: Machine, element: Value) -> bool | Condition:
        return Condition("in", element, self)


def from_disk(state: Value) -> bool:
    return isinstance(state, Unknown) or DISK in state.sources()


def zero(m: Machine, leaves: Iterable[Leaf], to_none: Value | None) -> None:
    """zero_grad()."""
    keeps = to_none is not None and to_none.truth(m) is False
    tape = m.state(RunTape)
    within = tape.within.name if tape.within else None
    tape.note(m, ev.Zero, leaves, to_none=not keeps, within=within)


def module_of(value: Value) -> Module | None:
    """The module that a value is, if it is one."""
    if isinstance(value, Module):
        return value
    if isinstance(value, Instance) and isinstance(value.native, Module):
        return value.native
    return None


def holds_parameters(value: Value) -> bool:
    if module_of(value) is not None:
        return True
    if isinstance(value, Either):
        return holds_parameters(value.yes) or holds_parameters(value.no)
    if isinstance(value, Unknown) and leaves_in(value.sources()):
        return True
    return isinstance(value, Tensor) and value.leaf is not None and value.leaf.trainable


def take_along(m: Machine, loop: Loop) -> bool:
    """What went through the first layers of a loop that was given up goes through the rest, too.

    False: it goes over no layers, and nobody can tell what its other rounds would have done.
    """
    assert loop.iterable is not None
    elements = [flatten([element]) for element in loop.iterable.iterate(m)]
    first, rest = (
        frozenset(leaf for parts in some for part in parts for leaf in leaves_of(part))
        for some in (elements[: loop.index], elements[loop.index :])
    )
    for value in m.frame.names.values():
        if isinstance(value, Tensor) and value.flow & first:
            value.flow |= rest
    return bool(rest)


def leaves_of(value: Value) -> list[Leaf]:
    found: dict[Leaf, None] = {}
    _gather_from(value, found, set())
    return list(found)


def _gather_from(value: Value, found: dict[Leaf, None], passed: set[int]) -> None:
    module = module_of(value)
    if module is not None:
        module.gather(found, passed)
    elif isinstance(value, Tensor):
        if value.leaf is not None:
            found[value.leaf] = None
    elif isinstance(value, Unknown):
        found.update(dict.fromkeys(atoms(leaves_in(value.sources()))))
    elif isinstance(value, Either):
        # Which one it is nobody had to ask yet: whoever owns it owns either.
        _gather_from(value.yes, found, passed)
        _gather_from(value.no, found, passed)


def _take_name(value: Value, name: str) -> None:
    """A part of a network is called after its place in it."""
    module = module_of(value)
    if module is not None:
        if "." not in module.label:
            module.label = name
            if module.own is not None:
                module.own.name = name
            for key, child in module.children.items():
                _take_name(child, f"{name}.{key}")
    elif isinstance(value, Either):
        _take_name(value.yes, name)
        _take_name(value.no, name)
    elif isinstance(value, Tensor) and value.leaf is not None and "." not in value.leaf.name:
        value.leaf.name = name


class Loss(Module):
    """nn.CrossEntropyLoss() and its like."""

    __slots__ = ("reduction",)

    def __init__(self, reduction: Value | None) -> None:
        super().__init__(None, "criterion")
        self.reduction = reduction

    def call(self, call: Call) -> Value:
        return loss_of(call.m, self.reduction, call)


def loss_of(m: Machine, reduction: Value | None, call: Call) -> Tensor:
    made = mix(m, "loss", *call.values())
    given = reduction.value if isinstance(reduction, Constant) else None
    if reduction is None or given in ("mean", "batchmean"):
        made.reduction = "mean"
    elif given == "sum":
        made.reduction = "sum"
    return made


def make_layer(name: str) -> Callable[[Call], Value]:
    """A class of torch.nn by its name."""

    def layer(call: Call) -> Value:
        made = Module(None, "")
        affine = call.kwargs.get("affine") or call.kwargs.get("elementwise_affine")
        bare = affine is not None and affine.truth(call.m) is False
        if name in WEIGHTY and not bare:
            made.own = Leaf("module", seen=True, coupled=name in COUPLED)
        elif name in COUPLED:
            made.own = Leaf("module", coupled=True, requires_grad=True, trainable=False)
        for place, argument in enumerate(call.args):
            if holds_parameters(argument):
                made.set_attribute(call.m, str(place), argument)
        return made

    def container(call: Call) -> Value:
        made = Module(None, "")
        made.by_key = name.endswith("Dict")
        m = call.m
        for argument in call.args:
            if isinstance(argument.resolve(m), Dict):
                for key, value in argument.resolve(m).values.values():  # type: ignore[attr-defined]
                    key_name = str(key.value) if isinstance(key, Constant) else key.text
                    made.set_attribute(m, key_name, value)
            elif holds_parameters(argument) or name == "Sequential":
                _put(m, made, argument)
            else:
                found = m.list_of(argument)
                made.seen = not found.open
                for value in found.values:
                    _put(m, made, value)
        return made

    def loss(call: Call) -> Value:
        return Loss(call.kwargs.get("reduction"))

    if name in CONTAINERS:
        return container
    return loss if name in LOSSES else layer


def _put(m: Machine, container: Module, value: Value) -> None:
    """An element of a container; what is not known may hold parameters of its own."""
    place = str(len(container.children))
    if isinstance(value, Unknown):
        value = Module(Leaf("module"), place, seen=False)
    if module_of(value) is None and not holds_parameters(value):
        return
    container.children[place] = value
    if container.label:
        _take_name(value, f"{container.label}.{place}")


def make_parameter(call: Call) -> Value:
    given = call.kwargs.get("requires_grad") or call.argument(1)
    made = Tensor("parameter", leaf=Leaf("tensor", seen=True, tensor=True))
    assert made.leaf is not None
    if given is not None and given.truth(call.m) is False:
        made.leaf.requires_grad = False
    return made


def unseen_network(label: str) -> Module:
    """A network from a library: parameters that train, of which nothing else is known."""
    return Module(Leaf(label or "module"), label, seen=False)


def make_network(call: Call) -> Value:
    """A network of a library: parameters of its own, and those of the modules it is given."""
    made = unseen_network("")
    for place, value in enumerate(flatten(call.values())):
        if holds_parameters(value):
            made.children[f"given{place}"] = value
    return made


MODULE = LibraryClass("torch.nn.Module", make_network)
