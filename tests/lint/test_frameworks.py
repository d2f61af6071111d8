"""Frameworks that stand between the loop and its optimizers."""

from tests.lint.linting import HEAD, loop, told

ACCELERATE = HEAD + (
    "from accelerate import Accelerator\n"
    "accelerator = Accelerator(gradient_accumulation_steps=4)\n"
    "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n"
)


def test_inside_accumulate_step_and_zero_are_no_ops_off_sync() -> None:
    code = loop(
        """
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
        """,
        over="for x, y in loader:",
        head=ACCELERATE,
    )

    assert told(code) == []


def test_zeroing_the_module_inside_accumulate_is_no_no_op() -> None:
    code = loop(
        """
        with accelerator.accumulate(model):
            accelerator.backward(F.mse_loss(model(x), y))
            optimizer.step()
            model.zero_grad()
        """,
        over="for x, y in loader:",
        head=ACCELERATE,
    )

    assert told(code) == ["GK102"]


def test_accelerates_own_clip_unscales_first() -> None:
    code = loop(
        """
        optimizer.zero_grad()
        accelerator.backward(F.mse_loss(model(x), y))
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        """,
        over="for x, y in loader:",
        head=ACCELERATE.replace("=4", "=1"),
    )

    assert told(code) == []


LIGHTNING = """
import torch
import pytorch_lightning as pl
from torch import nn

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
        {mode}

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        {zero}
        self.manual_backward(self.net(batch).mean())
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters())
"""


def test_lightnings_manual_mode_is_checked() -> None:
    mode = "self.automatic_optimization = False"

    assert told(LIGHTNING.format(mode=mode, zero="pass")) == ["GK101"]
    assert told(LIGHTNING.format(mode=mode, zero="optimizer.zero_grad()")) == []


def test_apex_scales_and_unscales_by_itself() -> None:
    code = loop(
        """
        optimizer.zero_grad()
        with amp.scale_loss(model(x).mean(), optimizer) as scaled:
            scaled.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
        """,
        head=HEAD + "from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer)\n",
    )

    assert told(code) == []


def test_a_loss_scaler_that_owns_backward_and_step_is_understood() -> None:
    scaler = HEAD + "from timm.utils import NativeScaler\nloss_scaler = NativeScaler()\n"
    body = "loss_scaler(model(x).mean(), optimizer, parameters=model.parameters())\n"

    assert told(loop(body + "optimizer.zero_grad()", head=scaler)) == []
    assert told(loop(body, head=scaler)) == ["GK101"]


def test_a_deepspeed_engine_keeps_its_own_books() -> None:
    head = HEAD + "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\n"

    assert told(loop("engine.backward(engine(x).mean())\nengine.step()", head=head)) == []


def test_distributed_autograd_keeps_gradients_in_its_context() -> None:
    code = (
        "import torch.distributed.autograd as dist_autograd\n"
        "from torch.distributed.optim import DistributedOptimizer\n"
        "opt = DistributedOptimizer(torch.optim.SGD, refs, lr=0.05)\n"
        "for x in loader:\n"
        "    with dist_autograd.context() as context:\n"
        "        dist_autograd.backward(context, [model(x).mean()])\n"
        "        opt.step(context)\n"
    )

    assert told(code) == []


def test_lbfgs_zeroes_inside_its_closure() -> None:
    code = loop(
        """
        def closure():
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            return loss
        optimizer.step(closure)
        """,
        head=HEAD.replace("SGD", "LBFGS"),
    )

    assert told(code) == []
