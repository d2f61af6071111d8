"""What the stand-ins for libraries know: for each fault a program with it, and one that is right.

A line that is told ends in the rule's code, as in `optimizer.step()  # GK101`.
"""

import ast
import re
from textwrap import dedent

import pytest

from gradkeeper.lint import certainty, explore
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.plan import Plan
from gradkeeper.lint.roots import Root
from gradkeeper.lint.run import Program, rehearse
from gradkeeper.model.finding import Severity
from gradkeeper.rules import ALL

Told = set[tuple[str, int]]


def program_of(source: str) -> Program:
    return Program(Project({"train.py": ast.parse(source)}), tuple(ALL))


def rehearsed(source: str) -> Told:
    """The certain errors and warnings of a program, by rule and line."""
    return {
        (finding.rule, finding.site.line)
        for runs in explore.roots(program_of(source))
        for finding in certainty.weigh(runs)
        if finding.certain and finding.severity is not Severity.INFO
    }


def marked(source: str) -> Told:
    """What the comments at the ends of lines say."""
    return {
        (code, number)
        for number, line in enumerate(source.splitlines(), 1)
        for code in re.findall(r"# .*?\b(GK\d{3})", line)
    }


HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
"""


def after(head: str, body: str) -> str:
    return head + dedent(body)


def check(source: str) -> None:
    assert rehearsed(source) == marked(source)


ACCELERATE = HEAD + (
    "from accelerate import Accelerator\n"
    "accelerator = Accelerator(gradient_accumulation_steps=4)\n"
    "model, optimizer, loader, scheduler = accelerator.prepare(\n"
    "    model, optimizer, DataLoader(data, 8), scheduler\n"
    ")\n"
)


@pytest.mark.parametrize(
    "body",
    [
        """
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        """,
        """
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                optimizer.step()  # GK101
        """,
        """
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                optimizer.step()
                model.zero_grad()  # GK102
        """,
        """
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)  # GK304
                optimizer.step()
                optimizer.zero_grad()
        """,
        """
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                optimizer.step()
                schedule.step()  # GK205
                optimizer.zero_grad()
        """,
        """
        accelerator.gradient_accumulation_steps = 1
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(F.mse_loss(model(x), y))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        """,
        """
        for i, (x, y) in enumerate(loader):
            if (i + 1) % 4:
                with accelerator.no_sync(model):
                    accelerator.backward(F.mse_loss(model(x), y))
            else:
                accelerator.backward(F.mse_loss(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
        """,
    ],
    ids=[
        "as its guide has it",
        "never zeroed",
        "the module zeroed off sync",
        "clipped on each micro-batch",
        "a scheduler that was not prepared",
        "windows of one",
        "windows by hand",
    ],
)
def test_accelerate(body: str) -> None:
    check(after(ACCELERATE, body))


@pytest.mark.parametrize(
    ("prepared", "mark"),
    [
        ("prepare(optimizer)", ""),
        ("optimizer", "  # GK501"),
        ("elsewhere.tune(prepare(optimizer))", ""),
        ("elsewhere.tune(optimizer)", "  # GK501"),
    ],
    ids=[
        "by a helper that takes dictionaries, too",
        "not at all",
        "and then unseen code puts something around it",
        "and unseen code puts something around it",
    ],
)
def test_an_optimizer_steps_with_accelerate_if_it_was_prepared(prepared: str, mark: str) -> None:
    code = f"""
    import elsewhere
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=4)

    def prepare(component):
        if isinstance(component, dict):
            for key in component:
                component[key] = accelerator.prepare(component[key])
        else:
            component = accelerator.prepare(component)
        return component

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = prepare(torch.utils.data.DataLoader(torch.randn(64, 4), 8))
    model = prepare(model)
    optimizer = {prepared}
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).square().mean())
            optimizer.step(){mark}
            optimizer.zero_grad()
    """

    check(dedent(code))


def test_an_accelerator_that_is_handed_in_shows_in_what_is_asked_of_it() -> None:
    code = """
    def train(accelerator, model, optimizer, loader):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step(){mark}
                {zero}
    """

    check(dedent(code.format(mark="", zero="optimizer.zero_grad()")))
    check(dedent(code.format(mark="  # GK101", zero="pass")))


FABRIC = HEAD + (
    "from lightning.fabric import Fabric\n"
    "fabric = Fabric(precision='16-mixed')\n"
    "model, optimizer = fabric.setup(model, optimizer)\n"
    "loader = fabric.setup_dataloaders(DataLoader(data, 8))\n"
)


@pytest.mark.parametrize(
    "body",
    [
        """
        for x, y in loader:
            optimizer.zero_grad()
            fabric.backward(F.mse_loss(model(x), y))
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
        """,
        """
        for x, y in loader:
            fabric.backward(F.mse_loss(model(x), y))
            optimizer.step()  # GK101
        """,
        """
        for i, (x, y) in enumerate(loader):
            fabric.backward(F.mse_loss(model(x), y))
            if (i + 1) % 2 == 0 or i + 1 == len(loader):
                optimizer.step()  # GK201
                optimizer.zero_grad()
        """,
        """
        for i, (x, y) in enumerate(loader):
            with fabric.no_backward_sync(model):
                fabric.backward(F.mse_loss(model(x), y))
            optimizer.step()  # GK501
            optimizer.zero_grad()
        """,
        """
        for i, (x, y) in enumerate(loader):
            accumulating = (i + 1) % 2 != 0
            with fabric.no_backward_sync(model, enabled=accumulating):
                fabric.backward(F.mse_loss(model(x), y) / 2)
            if not accumulating:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ],
    ids=["right", "never zeroed", "not divided", "never synchronised", "windows"],
)
def test_fabric(body: str) -> None:
    check(after(FABRIC, body))


LIGHTNING = """
import torch
{imports}
from torch import nn

class Net({base}):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = {automatic}
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        {zero}
        self.manual_backward(self.net(batch).mean())
        optimizer.step(){mark}

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters())

{fit}
"""


@pytest.mark.parametrize("fit", ["", "pl.Trainer().fit(Net(), loader)"], ids=["class", "script"])
@pytest.mark.parametrize(
    "imports", ["import pytorch_lightning as pl", "import lightning.pytorch as pl"]
)
def test_lightning_in_manual_mode(imports: str, fit: str) -> None:
    parts = {"imports": imports, "base": "pl.LightningModule", "automatic": False, "fit": fit}

    check(LIGHTNING.format(**parts, zero="optimizer.zero_grad()", mark=""))
    check(LIGHTNING.format(**parts, zero="pass", mark="  # GK101"))


def test_what_lightning_optimizes_by_itself_is_its_own_affair() -> None:
    parts = {"imports": "import lightning as L", "base": "L.LightningModule", "fit": ""}

    check(LIGHTNING.format(**parts, automatic=True, zero="pass", mark=""))


GAN = """
import torch
import lightning as L
from torch import nn

class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = nn.Linear(4, 4), nn.Linear(4, 1)

    def training_step(self, x, index):
        opt_g, opt_d = self.optimizers()
        {toggle}
        self.manual_backward(-self.d(self.g(x)).mean())
        opt_g.step()
        opt_g.zero_grad()
        {untoggle}
        self.manual_backward(self.d(self.g(x).detach()).mean() - self.d(x).mean())
        opt_d.step(){mark}
        opt_d.zero_grad()

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())
"""


def test_lightnings_toggle_keeps_one_loss_out_of_the_others_gradients() -> None:
    check(
        GAN.format(
            toggle="self.toggle_optimizer(opt_g)",
            untoggle="self.untoggle_optimizer(opt_g)",
            mark="",
        )
    )
    check(GAN.format(toggle="pass", untoggle="pass", mark="  # GK104"))


LANGUAGE_MODEL = """\
import torch
from transformers import AutoModelForCausalLM, get_linear_schedule_with_warmup

model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = get_linear_schedule_with_warmup(optimizer, 10, 100)
for step, batch in enumerate(loader):
"""


@pytest.mark.parametrize(
    "body",
    [
        """
    model(**batch).loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
        """,
        """
    model(**batch).loss.backward()
    optimizer.step()  # GK101
    schedule.step()
        """,
        """
    (model(**batch).loss / 4).backward()
    schedule.step()  # GK205
    if (step + 1) % 4 == 0 or step + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
        """,
        """
    outputs = model(**batch)
    outputs.loss.backward()
    if (step + 1) % 4 == 0 or step + 1 == len(loader):
        optimizer.step()  # GK201
        optimizer.zero_grad()
        """,
    ],
    ids=["right", "never zeroed", "a tick on each micro-batch", "not divided"],
)
def test_a_network_of_transformers_and_its_schedule(body: str) -> None:
    check(LANGUAGE_MODEL + body)


TRAINER = """
from transformers import Trainer

class Mine(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def {method}:
        {body}
"""


def test_a_trainers_step_leaves_the_optimizer_to_the_trainer() -> None:
    body = "self.accelerator.backward(self.compute_loss(model, inputs))"

    check(TRAINER.format(method="training_step(self, model, inputs)", body=body))


def test_a_trainer_with_a_loop_of_its_own_is_checked() -> None:
    body = (
        "for batch in self.get_train_dataloader():\n"
        "            self.compute_loss(self.model, batch).backward()\n"
        "            self.optimizer.step(){mark}\n"
    )
    zero = "            self.optimizer.zero_grad()\n"

    check(TRAINER.format(method="train(self)", body=body.format(mark="  # GK101")))
    check(TRAINER.format(method="train(self)", body=body.format(mark="") + zero))


PEFT = """\
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step(){mark}
    {zero}
"""


def test_adapters_train_and_the_rest_stays() -> None:
    check(PEFT.format(mark="", zero="optimizer.zero_grad()"))
    check(PEFT.format(mark="  # GK101", zero="pass"))


IGNITE = (
    HEAD
    + """\
from ignite.engine import Engine, Events

def update(engine, batch):
    x, y = batch
    loss = F.mse_loss(model(x), y) / 4
    loss.backward()
    if engine.state.iteration % 4 == 0:
        optimizer.step(){mark}
        {zero}

trainer = Engine(update)

@trainer.on(Events.EPOCH_COMPLETED)
def tick(engine):
    scheduler.step()

trainer.run(DataLoader(data, 8), max_epochs=3)
"""
)


def test_an_engine_of_ignite_calls_its_function_for_every_batch() -> None:
    check(IGNITE.format(mark="", zero="optimizer.zero_grad()"))
    check(IGNITE.format(mark="  # GK101", zero="pass"))


def each(*lines: str, over: str = "for x in loader:", head: str = HEAD) -> str:
    """A loop with these lines in it, after a head."""
    return head + over + "\n" + "".join(f"    {line}\n" for line in lines)


APEX = HEAD + "from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer)\n"
SCALED = ("with amp.scale_loss(model(x).mean(), optimizer) as scaled:", "    scaled.backward()")


def test_apex_scales_and_unscales_by_itself_and_does_not_zero() -> None:
    clip = "nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)"

    check(each("optimizer.zero_grad()", *SCALED, clip, "optimizer.step()", head=APEX))
    check(each(*SCALED, clip, "optimizer.step()  # GK101", head=APEX))


TIMM = HEAD + "from timm.utils import NativeScaler\nloss_scaler = NativeScaler()\n"
IN_ONE = (
    "loss_scaler(model(x).mean(){weight}, optimizer, clip_grad=1.0, parameters=model.parameters()"
)


def test_a_scaler_of_timm_takes_the_whole_step() -> None:
    call = IN_ONE.format(weight="") + ")"

    check(each(call, "optimizer.zero_grad()", head=TIMM))
    check(each(call + "  # GK101", head=TIMM))


def test_a_scaler_of_timm_that_steps_each_second_batch_makes_a_window() -> None:
    call = IN_ONE.format(weight=" / 2") + ", need_update=(i + 1) % 2 == 0)"
    over = "for i, x in enumerate(loader):"
    gated = ("if (i + 1) % 2 == 0:", "    optimizer.zero_grad()")

    check(each(call, *gated, over=over, head=TIMM))
    check(each(call, "optimizer.zero_grad()  # GK102", over=over, head=TIMM))


def test_a_scaler_that_is_handed_in_shows_in_how_it_is_called() -> None:
    code = """
    def train(model, loader, criterion, optimizer, scale):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / 4
            last = (i + 1) % 4 == 0
            scale(loss, optimizer, parameters=model.parameters(), need_update=last)
            {zero}
    """

    check(dedent(code.format(zero="if last: optimizer.zero_grad()")))
    check(dedent(code.format(zero="optimizer.zero_grad()  # GK102")))


def test_a_scaler_that_is_not_seen_may_zero_by_itself() -> None:
    code = """
    def train(model, loader, criterion, optimizer, scale):
        for x, y in loader:
            loss = criterion(model(x), y)
            scale(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
    """

    check(dedent(code))


DEEPSPEED = HEAD + "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=net)\n"
ENGINE = ("engine.backward(engine(x).mean())", "engine.step()")


def test_a_deepspeed_engine_keeps_its_own_books_and_others_keep_theirs() -> None:
    beside = (*ENGINE, "model(x).mean().backward()")

    check(each(*ENGINE, head=DEEPSPEED))
    check(each(*beside, "optimizer.step()", "optimizer.zero_grad()", head=DEEPSPEED))
    check(each(*beside, "optimizer.step()  # GK101", head=DEEPSPEED))


def test_distributed_autograd_keeps_gradients_in_its_context() -> None:
    check(
        "import torch\n"
        "import torch.distributed.autograd as dist_autograd\n"
        "from torch.distributed.optim import DistributedOptimizer\n"
        "opt = DistributedOptimizer(torch.optim.SGD, refs, lr=0.05)\n"
        "for x in loader:\n"
        "    with dist_autograd.context() as context:\n"
        "        dist_autograd.backward(context, [model(x).mean()])\n"
        "        opt.step(context)\n"
    )


FSDP = HEAD + "from torch.distributed.fsdp import fully_shard\nfully_shard(model)\n"


def test_gradients_that_fully_shard_was_told_not_to_exchange() -> None:
    over = "for i, x in enumerate(loader):"
    rest = (
        "(model(x).mean() / 2).backward()",
        "if (i + 1) % 2 == 0:",
        "    optimizer.step(){mark}",
        "    optimizer.zero_grad()",
    )
    right, wrong = ([line.format(mark=mark) for line in rest] for mark in ("", "  # GK501"))

    check(each("model.set_requires_gradient_sync((i + 1) % 2 == 0)", *right, over=over, head=FSDP))
    check(each("model.set_requires_gradient_sync(False)", *wrong, over=over, head=FSDP))


@pytest.mark.parametrize(
    "built",
    [
        "import bitsandbytes as bnb\noptimizer = bnb.optim.AdamW8bit(model.parameters())\n",
        "from torchao.optim import AdamW8bit\noptimizer = AdamW8bit(model.parameters())\n",
        "from lion_pytorch import Lion\noptimizer = Lion(model.parameters())\n",
        "from composer.optim import DecoupledAdamW\n"
        "optimizer = DecoupledAdamW(model.parameters())\n",
        "import schedulefree\noptimizer = schedulefree.AdamWScheduleFree(model.parameters())\n",
        "import horovod.torch as hvd\noptimizer = hvd.DistributedOptimizer(optimizer)\n",
        "from timm.optim import create_optimizer_v2\noptimizer = create_optimizer_v2(model)\n",
        "from pytorch_optimizer import Lookahead\noptimizer = Lookahead(optimizer)\n",
        "from opacus import PrivacyEngine\nmodel, optimizer, loader = PrivacyEngine().make_private("
        "module=model, optimizer=optimizer, data_loader=loader)\n",
        "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
        "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)\n",
        "from transformers import Adafactor\noptimizer = Adafactor(model.parameters())\n",
    ],
    ids=lambda built: built.split()[1].split(".")[0],
)
def test_optimizers_out_of_other_packages(built: str) -> None:
    backward = "model(x).mean().backward()"

    check(each(backward, "optimizer.step()", "optimizer.zero_grad()", head=HEAD + built))
    check(each(backward, "optimizer.step()  # GK101", head=HEAD + built))


@pytest.mark.parametrize(
    "built",
    [
        "import torchvision\nnet = torchvision.models.resnet18()\n",
        "from torchvision.models.detection import fasterrcnn_resnet50_fpn\n"
        "net = fasterrcnn_resnet50_fpn()\n",
        "import timm\nnet = timm.create_model('vit')\n",
        "import segmentation_models_pytorch as smp\nnet = smp.Unet('resnet34')\n",
        "from torch_geometric.nn import GCNConv\nnet = GCNConv(4, 4)\n",
        "from diffusers import UNet2DModel\nnet = UNet2DModel(32)\n",
    ],
    ids=lambda built: built.split()[-1],
)
def test_networks_out_of_other_packages(built: str) -> None:
    head = HEAD + built + "optimizer = torch.optim.AdamW(net.parameters())\n"

    check(each("net(x).mean().backward()", "optimizer.step()", "net.zero_grad()", head=head))
    check(each("net(x).mean().backward()", "optimizer.step()  # GK101", head=head))


XLA = HEAD + (
    "import torch_xla.core.xla_model as xm\n"
    "import torch_xla.distributed.parallel_loader as pl\n"
    "import torch_xla.distributed.xla_multiprocessing as xmp\n"
    "from torch.utils.data import DistributedSampler\n"
)


def test_xla_steps_by_a_function_of_its_own() -> None:
    loss = "model(x).mean().backward()"

    check(each("optimizer.zero_grad()", loss, "xm.optimizer_step(optimizer)", head=XLA))
    check(each(loss, "xm.optimizer_step(optimizer, barrier=True)  # GK101", head=XLA))
    check(each(loss, "xm.reduce_gradients(optimizer)", "optimizer.step()  # GK101", head=XLA))


@pytest.mark.parametrize(
    "wrapped",
    ["pl.MpDeviceLoader(loader, 'xla')", "pl.ParallelLoader(loader, [0]).per_device_loader(0)"],
)
def test_a_loader_of_xla_hands_out_what_the_loader_in_it_does(wrapped: str) -> None:
    loop = """\
def work(rank, epochs):
    sampler = DistributedSampler(data, num_replicas=8, rank=rank)
    loader = DataLoader(data, 8, sampler=sampler)
    for epoch in range(epochs):
        {told}
        for x in {wrapped}:{mark}
            optimizer.zero_grad()
            model(x).mean().backward()
            xm.optimizer_step(optimizer)

xmp.spawn(work, args=(3,), nprocs=8)
"""
    told, silent = ("sampler.set_epoch(epoch)", ""), ("pass", "  # GK505")

    for line, mark in (told, silent):
        check(XLA + loop.format(told=line, wrapped=wrapped, mark=mark))


@pytest.mark.parametrize("module", ["torch.multiprocessing", "torch_xla.distributed.xla_backend"])
def test_spawn_calls_a_function_with_what_it_is_given(module: str) -> None:
    loop = """\
from {module} import spawn

def work(rank, clear):
    for x in loader:
        if clear:
            optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step(){mark}

spawn(work, args=({clear},), nprocs=2)
"""

    check(HEAD + loop.format(module=module, clear=True, mark=""))
    check(HEAD + loop.format(module=module, clear=False, mark="  # GK101"))


AVERAGED = (
    HEAD
    + """\
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
averaged = AveragedModel(model)
swa = SWALR(optimizer, swa_lr=0.05)
for epoch in range(9):
    for x in loader:
        model(x).mean().backward()
        optimizer.step(){mark}
        {zero}
    averaged.update_parameters(model)
    swa.step()
update_bn(loader, averaged)
"""
)


def test_averaged_weights_are_a_copy_that_nobody_steps() -> None:
    check(AVERAGED.format(mark="", zero="optimizer.zero_grad()"))
    check(AVERAGED.format(mark="  # GK101", zero="pass"))


def test_an_optimizer_of_opacus_normalises_by_itself() -> None:
    private = (
        "from opacus import PrivacyEngine\nmodel, optimizer, loader = PrivacyEngine().make_private("
        "module=model, optimizer=optimizer, data_loader=DataLoader(data, 8))\n"
    )
    plain = "loader = DataLoader(data, 8)\n"
    body = (
        "F.mse_loss(model(x), x).backward()",
        "if (i + 1) % 4 == 0:",
        "    optimizer.step(){mark}",
        "    optimizer.zero_grad()",
    )
    right, wrong = ([line.format(mark=mark) for line in body] for mark in ("", "  # GK201"))
    over = "for i, x in enumerate(loader):"

    check(each(*right, over=over, head=HEAD + private))
    assert ("GK201", 13) in rehearsed(each(*wrong, over=over, head=HEAD + plain))


COMPOSER = """\
import torch
from composer import ComposerModel, Trainer

class Net(ComposerModel):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, batch):
        return self.layer(batch)

    def loss(self, outputs, batch):
        return outputs.mean()

model = Net()
optimizer = torch.optim.AdamW(model.parameters())
{rest}
"""
BY_COMPOSER = "Trainer(model=model, optimizers=optimizer, train_dataloader=loader).fit()"
BY_HAND = """\
for batch in loader:
    model.loss(model(batch), batch).backward()
    optimizer.step()  # GK101
"""


def test_composer_keeps_a_loop_of_its_own() -> None:
    check(COMPOSER.format(rest=BY_COMPOSER))
    check(COMPOSER.format(rest=BY_HAND))


def test_the_first_step_of_sam_is_no_update() -> None:
    head = (
        HEAD + "from pytorch_optimizer import SAM\nsam = SAM(model.parameters(), torch.optim.SGD)\n"
    )
    first = ("model(x).mean().backward()", "sam.first_step(zero_grad=True)")

    check(each(*first, "model(x).mean().backward()", "sam.second_step(zero_grad=True)", head=head))


WRAPPED = (
    HEAD
    + """\
from somewhere import Distributed, Wrapped
net = Wrapped(model)
opt = Distributed(net.parameters(), around=optimizer)
{first}
for x in loader:
    net(x).mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step(){mark}
    {zero}
"""
)


def test_what_is_not_seen_around_a_network_or_an_optimizer_is_a_wrapper() -> None:
    check(WRAPPED.format(first="", mark="", zero="opt.zero_grad()"))
    check(WRAPPED.format(first="", mark="", zero="model.zero_grad()"))
    check(WRAPPED.format(first="opt.zero_grad()", mark="  # GK101", zero="pass"))


def test_what_is_around_an_optimizer_may_zero_where_nobody_else_does() -> None:
    check(WRAPPED.format(first="", mark="", zero="pass"))


CHOSEN = """\
import argparse
import torch
from torch import nn
import prodigyopt

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer")
args = parser.parse_args()
model = nn.Linear(4, 1)
params = filter(lambda p: p.requires_grad, model.parameters())
if args.optimizer.lower() == "adamw":
    optimizer = torch.optim.AdamW(params)
if args.optimizer.lower() == "prodigy":
    optimizer = prodigyopt.Prodigy(params)
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_an_option_that_equals_one_word_equals_no_other() -> None:
    check(CHOSEN)


SKIPPED = """
for x, y in loader:
    with accelerator.accumulate(model):
        accelerator.backward(F.mse_loss(model(x), y))
        if accelerator.sync_gradients:
            norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            if torch.logical_or(norm.isnan(), norm.isinf()):
                optimizer.zero_grad()
                continue
            optimizer.step()
            optimizer.zero_grad()
"""


def test_a_window_whose_norm_is_not_finite_may_be_dropped() -> None:
    check(ACCELERATE + SKIPPED)


ADAPTED = """\
import torch
from diffusers import UNet2DConditionModel

unet = UNet2DConditionModel.from_pretrained("sd")
unet.requires_grad_(False)
unet.add_adapter(config)
params = [p for p in unet.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(params)
for x in loader:
    unet(x).sample.mean().backward()
    optimizer.step(){mark}
    {zero}
"""


def test_an_adapter_trains_beside_a_frozen_network() -> None:
    check(ADAPTED.format(mark="", zero="optimizer.zero_grad()"))
    check(ADAPTED.format(mark="  # GK101", zero="pass"))


LIMITED = """
done = 0
for epoch in range(epochs):
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            done += 1
        {save}
        if done >= max_steps:
            break
    accelerator.save_state("last")
"""


def test_a_limit_that_is_reached_at_a_step_leaves_no_window_open() -> None:
    save = 'accelerator.save_state("now")'

    check(ACCELERATE + LIMITED.format(save=f"if accelerator.sync_gradients: {save}"))
    check(ACCELERATE + LIMITED.format(save=f"{save}  # GK401"))


STAND_INS = [
    "accelerate.Accelerator",
    "accelerate.utils.GradientAccumulationPlugin",
    "accelerate.skip_first_batches",
    "lightning.fabric.Fabric",
    "lightning.LightningModule",
    "lightning.Trainer",
    "transformers.Trainer",
    "transformers.AutoModel",
    "transformers.get_scheduler",
    "transformers.AdamW",
    "diffusers.DDPMScheduler",
    "diffusers.training_utils.EMAModel",
    "peft.get_peft_model",
    "peft.PeftModel.from_pretrained",
    "ignite.engine.Engine",
    "ignite.engine.Events",
    "ignite.engine.create_supervised_trainer",
    "deepspeed.initialize",
    "deepspeed.ops.adam.FusedAdam",
    "apex.amp.initialize",
    "apex.amp.scale_loss",
    "apex.amp.master_params",
    "apex.fp16_utils.FP16_Optimizer",
    "apex.parallel.DistributedDataParallel",
    "timm.utils.NativeScaler",
    "timm.utils.ApexScaler",
    "timm.utils.ModelEma",
    "timm.utils.dispatch_clip_grad",
    "timm.create_model",
    "timm.optim.create_optimizer_v2",
    "timm.scheduler.create_scheduler_v2",
    "timm.scheduler.CosineLRScheduler",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "torch.distributed.optim.DistributedOptimizer",
    "torch.distributed.autograd.context",
    "horovod.torch.DistributedOptimizer",
    "torch_xla.core.xla_model.optimizer_step",
    "torch_xla.distributed.parallel_loader.ParallelLoader",
    "torch_xla.distributed.parallel_loader.MpDeviceLoader",
    "torch.multiprocessing.spawn",
    "opacus.PrivacyEngine",
    "opacus.utils.batch_memory_manager.BatchMemoryManager",
    "composer.Trainer",
    "composer.ComposerModel",
    "pytorch_optimizer.SAM",
    "pytorch_optimizer.Lookahead",
    "bitsandbytes.optim.Adam8bit",
    "torchvision.models.resnet18",
    "monai.losses.DiceLoss",
    "torch_geometric.loader.DataLoader",
]
METHODS = """
    step backward zero_grad train prepare setup accumulate no_sync no_backward_sync fit run on
    clip_grad_norm_ clip_gradients save save_state load load_state autocast launch make_private
    optimizers lr_schedulers manual_backward toggle_optimizer untoggle_optimizer state_dict
    parameters first_step second_step add_event_handler add_adapter get_state_dict loss logits
    unwrap_model gather free_memory skip_first_batches state iteration sync_gradients update
"""
USES = """
import {module}
x = source()
given = {name}({arguments})
for made in (given, given(), given(x, x), given.loss):
    with made as inner:
        inner
    for element in made:
        break
    made + 1, -made, made[0], made == 1, made < 1, 1 in made, len(made), not made
    made[0] = made.attribute = 1
    made += 1
    {calls}
"""


PACED = """
import torch
from torch import nn
from accelerate import Accelerator
from diffusers.optimization import get_scheduler

def main(args, loader):
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = get_scheduler("cosine", optimizer=optimizer, num_warmup_steps=10 * args.accumulate)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            {first}
            {then}
            optimizer.zero_grad()
"""


def test_a_schedule_that_counts_batches_comes_after_the_first_step_as_well() -> None:
    check(PACED.format(first="optimizer.step()", then="schedule.step()"))
    check(PACED.format(first="schedule.step()  # GK205", then="optimizer.step()"))


FORMER = """
import torch
from torch import nn
from pytorch_transformers import AdamW, WarmupLinearSchedule

model = nn.Linear(4, 1)
optimizer = AdamW(model.parameters(), lr=1e-3)
schedule = WarmupLinearSchedule(optimizer, warmup_steps=10, t_total=100)
for x in torch.randn(100, 8, 4):
    model(x).square().mean().backward()
    {first}
    {then}
    optimizer.zero_grad()
"""


def test_transformers_is_known_by_its_former_name() -> None:
    check(FORMER.format(first="optimizer.step()", then="schedule.step()"))
    check(FORMER.format(first="schedule.step()  # GK205", then="optimizer.step()"))


ATTRIBUTES = """
import torch
from torch import nn
from {module} import {made}

nets = {made}({{"body": nn.Linear(4, 8), "heads": {{"a": nn.Linear(8, 1)}}}})
optims = {made}()
optims.body = torch.optim.Adam(nets.body.parameters())
optims["a"] = torch.optim.Adam(nets.heads.a.parameters())
for x in torch.randn(50, 8, 4):
    {zero}
    nets.heads.a(nets.body(x)).square().mean().backward()
    optims.body.step(){mark}
    optims.a.step(){mark}
"""


@pytest.mark.parametrize(
    ("module", "made"),
    [("easydict", "EasyDict"), ("munch", "Munch"), ("addict", "Dict"), ("box", "Box")],
)
def test_the_entries_of_a_dict_may_be_its_attributes(module: str, made: str) -> None:
    zero = "for o in optims.values(): o.zero_grad()"
    check(ATTRIBUTES.format(module=module, made=made, zero=zero, mark=""))
    check(ATTRIBUTES.format(module=module, made=made, zero="pass", mark="  # GK101"))


STACKED = """
import contextlib
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(16, 8, 4)):
    with contextlib.ExitStack() as stack:
        {enter}
        (model(x).square().mean() / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step(){mark}
        optimizer.zero_grad()
"""


def test_what_an_exit_stack_enters_it_leaves() -> None:
    enter = "stack.enter_context(model.no_sync())"
    check(STACKED.format(enter=f"if (i + 1) % 4: {enter}", mark=""))
    check(STACKED.format(enter=enter, mark="  # GK501"))


RECORD = """
import torch
from torch import nn
from dataclasses import dataclass, field

@dataclass
class Trainer:
    model: nn.Module
    count: int = field(default=0, init=False)
    accumulate: int = 4
    losses: list = field(default_factory=list)
    optimizer: torch.optim.Optimizer = field(init=False)

    def __post_init__(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def __call__(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        (loss{divided}).backward()
        self.count += 1
        self.losses.append(loss.item())
        if not self.count % self.accumulate:
            self.optimizer.step(){mark}
            self.optimizer.zero_grad()

trainer = Trainer(nn.Linear(4, 3), 4)
for _ in range(16):
    trainer(torch.randn(8, 4), torch.randint(0, 3, (8,)))
"""


def test_a_field_of_a_record_has_its_default() -> None:
    check(RECORD.format(divided=" / self.accumulate", mark=""))
    check(RECORD.format(divided="", mark="  # GK201"))


@pytest.mark.parametrize("name", STAND_INS)
def test_whatever_is_done_with_a_stand_in_it_never_raises(name: str) -> None:
    calls = "\n    ".join(
        f"made.{method}, made.{method}(), made.{method}(x), made.{method}(1, None, n=made)"
        for method in METHODS.split()
    )
    module = name.rpartition(".")[0].replace(".PeftModel", "")
    for arguments in ("", "None", "model, optimizer", "x, **options"):
        source = USES.format(module=module, name=name, arguments=arguments, calls=calls)

        rehearse(program_of(source), Root("train.py"), Plan())


CLOSED_BY_HAND = """
import contextlib
import torch
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(8, 8, 4)):
    stack = contextlib.ExitStack()
    if (i + 1) % 4:
        stack.enter_context(model.no_sync())
    (model(x).square().mean() / 4).backward()
    {close}
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("close", ["stack.close()", "stack.pop_all().close()"])
def test_an_exit_stack_may_be_closed_by_hand(close: str) -> None:
    check(CLOSED_BY_HAND.format(close=close))
    left_open = CLOSED_BY_HAND.format(close="").replace("step()", "step()  # GK501")
    check(left_open)
