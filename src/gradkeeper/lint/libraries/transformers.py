"""transformers, diffusers and peft: networks whose output holds a loss, schedules, Trainers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Instance,
    LibraryClass,
    StandIn,
    flatten,
    visible,
)
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Unknown, Value
from gradkeeper.lint.interpreter.vocabulary import words
from gradkeeper.lint.libraries import optim
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.lightning import plain
from gradkeeper.lint.libraries.networks import Network, network
from gradkeeper.lint.libraries.nn import Module, module_of
from gradkeeper.lint.libraries.optim import Scheduler, optimizer_of
from gradkeeper.lint.libraries.roles import as_module
from gradkeeper.lint.libraries.trainer_loops import Framework

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

MODEL = re.compile(
    r"(?!DataCollator|Auto\w*(Config|Tokenizer|Processor|FeatureExtractor)$)"
    r"\w*(Model|LMHead|Backbone|Pretraining|PreTraining|For[A-Z]\w*|PreTrainedModel)"
)
"""Classes of networks, by the way the library names them."""
BARE = re.compile(r"\w*(PreTrainedModel|PretrainedModel|ModelMixin)")
"""Base classes without parameters of their own."""
SCHEDULE = re.compile(
    r"get_\w*(schedule|scheduler|schedule_with_warmup)|(Warmup\w*|ConstantLR)Schedule"
)
FORMER = "pytorch_transformers"
"""What the library was called when its schedules were classes."""
OPTIMIZERS = words("AdamW Adafactor")
HOOKS = words(
    """training_step compute_loss create_optimizer create_scheduler prediction_step
    create_optimizer_and_scheduler evaluation_loop optimizer_step"""
)
"""What a Trainer calls by itself, in a loop of its own."""
TRAINERS = words(
    """Trainer Seq2SeqTrainer SFTTrainer DPOTrainer RewardTrainer PPOTrainer GRPOTrainer KTOTrainer
    ORPOTrainer"""
)


class Trainer(Framework):
    """A Trainer: its loop is not the program's, and what it calls is part of that loop."""

    __slots__ = ("me",)

    def __init__(self) -> None:
        self.me: Value = self

    @property
    def text(self) -> str:
        return "self"

    def drive(self, m: Machine, name: str) -> bool:
        return name in HOOKS

    def attribute(self, m: Machine, name: str) -> Value:
        if name == "__init__":
            return BuiltIn(name, lambda call: NONE)
        return StandIn.attribute(self, m, name)

    @visible
    def train(self, call: Call) -> Value:
        return NONE

    @visible
    def evaluate(self, call: Call) -> Value:
        return NONE

    @visible
    def log(self, call: Call) -> Value:
        return NONE

    @visible
    def save_model(self, call: Call) -> Value:
        return NONE


def make_trainer(call: Call) -> Value:
    hand_over(call)
    return Trainer()


def hand_over(call: Call) -> None:
    """Optimizers that a framework is given are stepped and zeroed there."""
    for argument in flatten(call.values()):
        optimizer = optimizer_of(argument)
        if optimizer is not None:
            call.m.must_be_sure()
            optimizer.owner.escaped = optimizer.owner.kept = True


def _trainer_half(instance: Instance, call: Call) -> Value:
    hand_over(call)
    made = Trainer()
    made.me = instance
    return made


def schedule(call: Call) -> Value:
    """get_scheduler(name, optimizer, ...), get_..._schedule(optimizer, ...)."""
    given = call.kwargs.get("optimizer")
    if given is None:
        named = bool(call.args) and isinstance(call.args[0], Constant)
        texts = [
            argument
            for argument in call.args[:2]
            if optimizer_of(argument.resolve(call.m)) is not None
        ]
        given = texts[0] if texts else call.argument(1 if named or len(call.args) > 1 else 0)
    return Scheduler(given or NONE, made_by=call)


def find_transformers(m: Machine, name: str) -> Value | None:
    """What a name that begins with `transformers` or `trl` stands for."""
    last = name.rpartition(".")[2]
    if last in TRAINERS:
        return LibraryClass(name, make_trainer, half=_trainer_half)
    if SCHEDULE.fullmatch(last):
        return BuiltIn(name, schedule)
    if last in OPTIMIZERS:
        return LibraryClass(name, lambda call: optim.build(call, last))
    if last in ("set_seed", "enable_full_determinism"):
        return BuiltIn(name, lambda call: NONE)
    if last == "TrainerCallback":
        return plain(name)
    if BARE.fullmatch(last):
        return network(name, mean=True, own=False)
    if last[:1].isupper() and MODEL.fullmatch(last):
        return network(name, mean=True)
    return None


# -- diffusers


class Averages(StandIn):
    """EMAModel: a copy of parameters that follows the trained ones."""

    __slots__ = ()

    @visible
    def step(self, call: Call) -> Value:
        return NONE


class NoiseSchedule(StandIn):
    """DDPMScheduler and its like: noise for diffusion, no learning rates."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return "noise_scheduler"


def find_diffusers(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    if SCHEDULE.fullmatch(last):
        return BuiltIn(name, schedule)
    if last == "EMAModel":
        return LibraryClass(name, lambda call: Averages())
    if last.endswith("Scheduler"):
        made = lambda call: NoiseSchedule()  # noqa: E731
        return LibraryClass(name, made, {"from_pretrained": made, "from_config": made})
    if BARE.fullmatch(last):
        return network(name, own=False)
    if last[:1].isupper() and re.fullmatch(r"UNet\w+|Autoencoder\w+|\w*Model|VQ\w+", last):
        return network(name)
    return None


# -- peft


class Adapted(Network):
    """A network with adapters: these train, the rest stays as it is."""

    __slots__ = ("inner",)

    def __init__(self, inner: Value, module: Module) -> None:
        Network.__init__(self, "adapters", mean=getattr(module, "mean", False))
        self.label = module.label
        self.inner = inner
        self.children = {"base_model": module.me}

    def attribute(self, m: Machine, name: str) -> Value:
        if name in ("base_model", "model"):
            return self.inner
        if name in ("print_trainable_parameters", "save_pretrained", "set_adapter"):
            return BuiltIn(name, lambda call: NONE)
        return Network.attribute(self, m, name)


def _freeze(m: Machine, given: Value) -> Module | None:
    module = module_of(given)
    if module is None and isinstance(given, Unknown):
        module = as_module(m, given)
    if module is not None:
        m.must_be_sure()
        for leaf in atoms(module.leaves()):
            leaf.requires_grad = False
    return module


def _adapted(call: Call) -> Value:
    given = (call.argument(0, "model") or NONE).resolve(call.m)
    module = _freeze(call.m, given)
    return Adapted(given, module) if module is not None else given


def _adapters_loaded(call: Call) -> Value:
    made = _adapted(call)
    trains = call.kwargs.get("is_trainable")
    if isinstance(made, Adapted) and isinstance(made.own, Leaf):
        made.own.requires_grad = trains is not None and trains.truth(call.m) is not False
    return made


def _frozen(call: Call) -> Value:
    given = (call.argument(0, "model") or NONE).resolve(call.m)
    _freeze(call.m, given)
    return given


def find_peft(m: Machine, name: str) -> Value | None:
    last = name.rpartition(".")[2]
    if last in ("get_peft_model", "inject_adapter_in_model"):
        return BuiltIn(name, _adapted)
    if last in ("prepare_model_for_kbit_training", "prepare_model_for_int8_training"):
        return BuiltIn(name, _frozen)
    if re.fullmatch(r"(Auto)?Peft\w*Model\w*", last):
        return LibraryClass(name, _adapted, {"from_pretrained": _adapters_loaded})
    return None
