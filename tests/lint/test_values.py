"""Every method on every kind of value: whatever a program does, a value never raises."""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import pytest

import gradkeeper.lint.interpreter as interpreter
import gradkeeper.lint.libraries as libraries
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.containers import Slice
from gradkeeper.lint.interpreter.machine import Machine
from gradkeeper.lint.interpreter.objects import Class, Instance
from gradkeeper.lint.interpreter.plan import Plan
from gradkeeper.lint.interpreter.state import EndedError, RaisedError
from gradkeeper.lint.interpreter.values import NONE, Call, Condition, Constant, Value, either
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.parameters import Params
from gradkeeper.lint.libraries.registry import StandardLibraries
from gradkeeper.lint.libraries.tensors import MOST_KNOWN

ZOO = """
import keeper
import argparse, collections, contextlib, copy, dataclasses, functools, itertools, math, sys, types
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torch.cuda.amp import GradScaler
import numpy as np
import accelerate, apex, composer, deepspeed, lightning, opacus, peft, transformers
import timm.utils, timm.scheduler, ignite.engine, ignite.metrics
import pytorch_lightning as pl
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.fsdp import fully_shard
from lightning.fabric import Fabric
import gradkeeper, diffusers, munch, pytorch_optimizer
import torch_xla.distributed.parallel_loader
from tqdm import tqdm
import somewhere
from somewhere import strange


def plain(a, b=1, *rest, c=None, **more):
    return a


def generated(n=2):
    for i in range(n):
        yield i


@contextlib.contextmanager
def managed():
    yield 1


def deep(x):
    yield from generated()


class Base:
    shared = 1

    def __init__(self, value=0):
        self.value = value

    @property
    def twice(self):
        return self.value * 2

    @staticmethod
    def apart(x):
        return x

    @classmethod
    def of(cls, x):
        return cls(x)

    def method(self, x=1):
        global parent
        parent = super()

    def __getitem__(self, key):
        global cut
        cut = key

    def __iter__(self):
        yield self.value

    def __call__(self, *args):
        return args


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.own = nn.Parameter(torch.zeros(4))
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])

    def forward(self, x):
        return self.layer(x)


class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad)


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.layer = nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


number, text, nothing, true = 3, "words", None, True
floating, binary, listed, table, pair = 1.5, b"raw", [1, 2], {"a": 1, **strange}, (1, 2)
several, named, taken = {1, 2}, types.SimpleNamespace(a=1), Base()[1:2]
fields = collections.namedtuple("Fields", "a b")(1, 2)
args = argparse.ArgumentParser().parse_args()
unknown, made, part = strange, strange(1), strange.part
chosen = 1 if strange else [2]
tested = strange > 1
both = strange > 1 and not made
joined = f"{strange} and {number}"
squares = [n * n for n in strange]
lazily = (n for n in [1, 2])
lazy = (one for one in strange)
function, anonymous, bound, cls, instance = plain, lambda x: x, Base().method, Base, Base(strange)
partial = functools.partial(plain, 1)
generator, running = generated(), iter([1, 2])
manager, null = managed(), contextlib.nullcontext()
counted, zipped, ranged, turned = enumerate(strange), zip([1], strange), range(3), reversed([1, 2])
open_range, mapped, chained = range(strange), map(plain, strange), itertools.chain([1], strange)
turning, sliced, grouped = itertools.cycle([1]), itertools.islice(strange, 2), itertools.count()
counter, default, queue = collections.Counter(), collections.defaultdict(list), collections.deque()
net, lit, linear = Net(), Lit(), nn.Linear(4, 1)
model, wrapped = strange.model, DistributedDataParallel(linear)
sharded = fully_shard(nn.Linear(4, 4))
several_layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
relu, criterion, dropped = nn.ReLU(), nn.CrossEntropyLoss(ignore_index=0), nn.Dropout()
x = torch.randn(2, 4)
no_rows, steps, down = torch.zeros(0, 3), torch.linspace(0, 1.0, 5), torch.arange(3, 0, -1)
leaf = torch.zeros(4, requires_grad=True)
parameter, tensor, output = nn.Parameter(leaf), x.detach(), net(x)
loss = F.mse_loss(output, x)
summed, scaled_loss = loss + criterion(output, x), loss / 4
grad, gradients = net.own.grad, torch.autograd.grad(loss, net.own)
parameters, named_parameters = net.parameters(), net.named_parameters()
listed_parameters, filtered = list(net.parameters()), filter(plain, net.parameters())
one_parameter = next(net.parameters())
layers, modules = net.layers, net.modules()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
own, strange_optimizer = Own(net.parameters()), strange.optimizer
groups, group, state = optimizer.param_groups, optimizer.param_groups[0], optimizer.state
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
average = torch.optim.swa_utils.AveragedModel(net)
scaler, old_scaler = torch.amp.GradScaler("cuda"), GradScaler(enabled=strange)
scaled = scaler.scale(loss)
cast, without, mode = torch.autocast("cuda"), torch.no_grad(), torch.set_grad_enabled(False)
loader, data = DataLoader(TensorDataset(x), 2), TensorDataset(x)
stateful, sampler = StatefulDataLoader(data, 2), DistributedSampler(data)
in_batches = BatchSampler(sampler, 2, False)
opened = iter(stateful)
batches, endless = iter(loader), iter(strange)
batch = next(batches)
norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
finite, is_finite = torch.isfinite(norm), math.isfinite(float(norm))
saved, loaded = net.state_dict(), torch.load("x.pt")
kept_vars, captured = net.state_dict(keep_vars=True), torch.cuda.CUDAGraph()
on_devices = torch_xla.distributed.parallel_loader.ParallelLoader(loader, [])
no_sync, sync = wrapped.no_sync, wrapped.no_sync()
copied = copy.deepcopy(net)
array, rows = np.zeros(3), np.linspace(0, 1)
record_dict, record_field = munch.Munch(a={"b": 1}), dataclasses.field(default=1)
stack = contextlib.ExitStack()
hook = net.register_forward_hook(plain)
accelerator = accelerate.Accelerator(gradient_accumulation_steps=2)
prepared, prepared_optimizer = accelerator.prepare(net, optimizer)
accumulating = accelerator.accumulate(net)
fabric = Fabric()
fabric_net, fabric_optimizer = fabric.setup(net, optimizer)
trainer, hf_trainer = pl.Trainer(), transformers.Trainer(net)
hf, hf_loss = transformers.AutoModel.from_pretrained("x"), transformers.AutoModel()(x).loss
schedule = transformers.get_linear_schedule_with_warmup(optimizer, 1, 2)
ds, ds_optimizer, _, _ = deepspeed.initialize(model=net, optimizer=optimizer)
apex_net, apex_optimizer = apex.amp.initialize(net, optimizer)
apex_scaled = apex.amp.scale_loss(loss, optimizer)
native, warm = timm.utils.NativeScaler(), timm.scheduler.CosineLRScheduler(optimizer)
ignited = ignite.engine.Engine(plain)
private = opacus.PrivacyEngine()
composed = composer.Trainer(net)
adapted = peft.get_peft_model(net, None)
engine = gradkeeper.Engine(net, optimizer)
windows = engine.windows(loader, size=2)
window = engine.window()
watched = gradkeeper.watch(optimizer)
plugin = accelerate.utils.GradientAccumulationPlugin(num_steps=2)
run_state, half = accelerator.state, apex.fp16_utils.FP16_Optimizer(optimizer)
static, of_class, upper = vars(Base), Base.of, Base().method()
parser, bar, cut_open = argparse.ArgumentParser(), tqdm(strange), itertools.islice([1], strange)
quiet, hf_output, fast = torch.no_grad()(plain), hf(x), pl.LightningDataModule()
running_trainer, toggling = lit.trainer, lit.toggle_optimizer(optimizer)
toggled = lit.optimizers().toggle_model()
sharp, shadow = pytorch_optimizer.SAM(net.parameters()), timm.utils.ModelEma(net)
spread, events = torch.distributions.Normal(0, 1), ignite.engine.Events
started, ignited_state = ignite.engine.Events.STARTED, ignited.state
registered = ignited.on(ignite.engine.Events.STARTED)
noise = diffusers.DDPMScheduler()
averages = diffusers.training_utils.EMAModel(net.parameters())
logits, factor = hf(x).logits, scaler.get_scale()
engine_batches = engine.batches(loader, size=2)
no_backward_sync = fabric.no_backward_sync(fabric_net)
remote = torch.distributed.optim.DistributedOptimizer(torch.optim.SGD, [])
for group_of in engine_batches:
    engine_group = group_of
for p in net.parameters():
    one, its_data, its_grad, fact = p, p.data, p.grad, p.requires_grad
    its_method = p.add_
for its_name, p in net.named_parameters():
    name_method = its_name.startswith
length, open_length = len(loader), len(strange)
count = 0
for i, one in enumerate(strange):
    count += 1
remainder = i % 4
parts, seen = x.split(2), 0
for one in strange:
    seen += len(one)
    if seen > 8:
        seen = 0
        optimizer.step()
"""

NAMES = """
    __class__ __name__ T a add_ append backward call close data device dtype eval extend first_step
    forward get grad half item items keys layer loss mean module mul_ name no_sync numel optimizer
    param_groups parameters pop requires_grad requires_grad_ scale shape size split state_dict step
    sum to train training update values weight zero_ zero_grad
"""
SIGNS = ("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>")
NEVER_MADE: dict[str, str] = {}
"""Kinds of values that the program above cannot hold, with the reason."""


@cache
def kinds() -> tuple[type[Value], ...]:
    """All classes of values that no other one is made of."""
    for package in (interpreter, libraries):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: dict[type[Value], None] = {}
    waiting: list[type[Value]] = [Value]
    while waiting:
        one = waiting.pop()
        more = one.__subclasses__()
        waiting += more
        # A class with slots was made twice, and its first making is still known.
        if not more and vars(sys.modules[one.__module__]).get(one.__name__) is one:
            found[one] = None
    return tuple(found)


@cache
def project() -> Project:
    """The program above, of which no line is skipped."""
    files = {"zoo.py": ZOO, "keeper.py": "food = [1, 2]\n"}
    whole = Project({path: ast.parse(text) for path, text in files.items()}, None)
    whole.facts.skipped.clear()
    return whole


def machine() -> tuple[Machine, dict[type[Value], Value]]:
    """One that has run the program above, and a value of each kind that it met."""
    whole = project()
    m = Machine(Plan(), StandardLibraries(), whole, whole.facts, 10_000_000)
    m.frame = m.run_module(whole.files["zoo.py"], "zoo.py", "zoo")
    each: dict[type[Value], Value] = {}
    for value in m.frame.names.values():
        members = list(value.members.values()) if isinstance(value, Class) else []
        native = [value.native] if isinstance(value, Instance) and value.native else []
        for one in (value, *islice(value.held(), 3), *members, *native):
            each.setdefault(type(one), one)
    for value in list(each.values()):
        for name in NAMES.split():
            each.setdefault(type(of := value.attribute(m, name)), of)
    return m, each


def uses(m: Machine, value: Value, other: Value) -> Iterator[tuple[str, Callable[[], object]]]:
    """All that may be done with a value, a second one beside it."""
    call = Call(m, [other], {"name": other})
    yield "key", lambda: hash(value.key)
    yield "text", lambda: value.text
    yield "fixed", lambda: value.fixed
    yield "sources", value.sources
    yield "truth", lambda: value.truth(m)
    yield "named", lambda: value.named(m, "name")
    yield "item", lambda: value.item(m, other)
    yield "set_item", lambda: value.set_item(m, Constant(0), other)
    yield "call", lambda: value.call(call)
    yield "call without", lambda: value.call(Call(m))
    yield "call open", lambda: value.call(Call(m, [other, other], open=True))
    yield "iterate", lambda: list(islice(value.iterate(m), 5))
    yield "for_each", lambda: value.for_each(m, lambda element: True)
    yield "endless", value.endless
    yield "length", lambda: value.length(m)
    yield "takes_part", value.takes_part
    yield "recurs", value.recurs
    yield "absorbs", value.absorbs
    yield "asked_number", value.asked_number
    yield "contains", lambda: value.contains(m, other)
    yield "within", lambda: value.within(m, other)
    yield "equals", lambda: value.equals(m, other)
    yield "compare", lambda: value.compare(m, other)
    yield "compared_by", lambda: value.compared_by(m, other)
    yield "is_none", lambda: value.is_none(m)
    yield "around", lambda: value.around(m, "step", other)
    yield "held", lambda: list(islice(value.held(), 5))
    yield "resolve", lambda: value.resolve(m)
    yield "enter", lambda: value.enter(m)
    yield "leave", lambda: value.leave(m)
    yield "next", lambda: m.next_of(value, other)
    yield "list", lambda: m.list_of(value)
    yield "join", lambda: either(Condition("", m.unknown("open")), value, other, m)
    for sign in ("-", "+", "~"):
        yield f"invert {sign}", lambda sign=sign: value.invert(m, sign)  # type: ignore[misc]
    for sign in SIGNS:
        yield f"operate {sign}", lambda sign=sign: value.operate(m, sign, other)  # type: ignore[misc]
        yield (
            f"operate {sign} swapped",
            lambda sign=sign: value.operate(m, sign, other, swapped=True),  # type: ignore[misc]
        )
        yield f"augment {sign}", lambda sign=sign: value.augment(m, sign, other)  # type: ignore[misc]


def asked(m: Machine, value: Value, other: Value) -> Iterator[tuple[str, Callable[[], object]]]:
    """The same of its attributes."""
    for name in NAMES.split():
        yield f"attribute {name}", lambda name=name: value.attribute(m, name)  # type: ignore[misc]
        yield (
            f"{name}(other)",
            lambda name=name: value.attribute(m, name).call(Call(m, [other])),  # type: ignore[misc]
        )
        yield f"{name}()", lambda name=name: value.attribute(m, name).call(Call(m))  # type: ignore[misc]
        yield (
            f"set {name}",
            lambda name=name: value.set_attribute(m, name, other),  # type: ignore[misc]
        )
        yield f"delete {name}", lambda name=name: value.delete_attribute(m, name)  # type: ignore[misc]


def failures(m: Machine, tries: Iterator[tuple[str, Callable[[], object]]]) -> Iterator[str]:
    for what, work in tries:
        frame = m.frame
        try:
            work()
        except (EndedError, RaisedError):
            pass  # the program's own: an exception of its own, or its end
        except Exception as error:
            yield f"{what}: {error!r}"
        finally:
            m.frame = frame
            del m.loops[:], m.entered[:]


def test_every_kind_of_value_is_in_the_zoo() -> None:
    """A new kind has to be put there, and so is tried."""
    _, values = machine()

    assert {kind.__name__ for kind in kinds() if kind not in values} == NEVER_MADE.keys()


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_value_raises_whatever_is_done_with_it(slow: bool) -> None:
    found = []
    count = len(machine()[1])
    for place in range(count):
        m, values = machine()
        kind, value = list(values.items())[place]
        others = [Constant(1), m.unknown("strange")]
        if slow:
            others = [one for one in values.values() if one is not value][place % 6 :: 6]
        for other in others:
            for tries in (uses(m, value, other), asked(m, value, other)):
                seen = f"{kind.__name__} with {type(other).__name__}: "
                found += [seen + one for one in failures(m, tries)]

    assert found == []


def test_this_would_notice_a_value_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    m, _ = machine()
    monkeypatch.setattr(Constant, "truth", lambda self, m: 1 / 0)

    assert list(failures(m, uses(m, Constant(1), Constant(2))))


def test_parts_of_a_list_of_parameters_stay_few_however_often_it_is_cut() -> None:
    m, _ = machine()
    leaf = Leaf("weights")
    params = Params((leaf,), "params")

    for place in range(1, 9):
        params.item(m, Slice(Constant(place), NONE, NONE))
        params.item(m, Slice(Constant(0), NONE, NONE))

    assert len(list(atoms([leaf]))) <= 2**MOST_KNOWN
