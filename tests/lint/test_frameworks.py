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


def test_apex_scales_a_loss_of_autocast() -> None:
    code = loop(
        """
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        {backward}
        optimizer.step()
        """,
        head=HEAD + "from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer)\n",
    )
    scaled = "with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()"

    assert told(code.replace("{backward}", scaled)) == []
    assert told(code.replace("{backward}", "loss.backward()")) == ["GK307"]


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


FABRIC = HEAD + (
    "from lightning.fabric import Fabric\n"
    "fabric = Fabric(precision='16-mixed')\n"
    "model, optimizer = fabric.setup(model, optimizer)\n"
    "loader = fabric.setup_dataloaders(loader)\n"
)
IN_FABRIC = "fabric.backward(F.mse_loss(model(x), y){weight})\n"
EACH_SECOND = "if (i + 1) % 2 == 0:\n    optimizer.step()\n    optimizer.zero_grad()\n"


def fabric(body: str) -> list[str]:
    return told(loop(body, over="for i, (x, y) in enumerate(loader):", head=FABRIC))


def test_fabric_hands_back_the_optimizer_that_it_sets_up() -> None:
    whole = IN_FABRIC.format(weight="")

    assert fabric(f"optimizer.zero_grad()\n{whole}optimizer.step()") == []
    assert fabric(f"{whole}optimizer.step()") == ["GK101"]


def test_fabrics_own_clip_unscales_first() -> None:
    clip = "fabric.clip_gradients(model, optimizer, max_norm=1.0)\n"

    body = f"optimizer.zero_grad()\n{IN_FABRIC.format(weight='')}{clip}optimizer.step()"

    assert fabric(body) == []


def test_fabric_divides_no_loss() -> None:
    undivided, halved = (IN_FABRIC.format(weight=weight) for weight in ("", " / 2"))

    assert "GK201" in fabric(undivided + EACH_SECOND)
    assert "GK201" not in fabric(halved + EACH_SECOND)


def test_a_window_that_fabric_never_synchronises_is_told() -> None:
    head = "with fabric.no_backward_sync(model{enabled}):\n    "
    body = IN_FABRIC.format(weight=" / 2") + EACH_SECOND

    assert "GK501" in fabric(head.format(enabled="") + body)
    assert "GK501" not in fabric(head.format(enabled=", enabled=(i + 1) % 2 != 0") + body)


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

    assert told(TRAINER.format(method="training_step(self, model, inputs)", body=body)) == []


def test_a_trainer_with_a_loop_of_its_own_is_checked() -> None:
    body = (
        "for batch in self.get_train_dataloader():\n"
        "            self.compute_loss(self.model, batch).backward()\n"
        "            self.optimizer.step()\n"
    )
    zero = "            self.optimizer.zero_grad()\n"

    assert told(TRAINER.format(method="train(self)", body=body)) == ["GK101"]
    assert told(TRAINER.format(method="train(self)", body=body + zero)) == []


def test_an_optimizer_beside_a_deepspeed_engine_is_still_checked() -> None:
    head = HEAD + "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=net)\n"
    body = "engine.backward(engine(x).mean())\nengine.step()\nmodel(x).mean().backward()\n"

    assert told(loop(body + "optimizer.step()", head=head)) == ["GK101"]
    assert told(loop(body + "optimizer.step()\noptimizer.zero_grad()", head=head)) == []


def test_apex_does_not_zero() -> None:
    code = loop(
        """
        with amp.scale_loss(model(x).mean(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        """,
        head=HEAD + "from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer)\n",
    )

    assert told(code) == ["GK101"]


def test_a_loss_scaler_that_steps_each_second_batch_makes_a_window() -> None:
    head = HEAD + "from timm.utils import NativeScaler\nloss_scaler = NativeScaler()\n"
    call = (
        "loss_scaler(model(x).mean() / 2, optimizer, parameters=model.parameters(), "
        "need_update=(i + 1) % 2 == 0)\n"
    )
    each = "for i, x in enumerate(loader):"

    assert told(loop(call + "optimizer.zero_grad()", over=each, head=head)) == ["GK102"]
    gated = call + "if (i + 1) % 2 == 0:\n    optimizer.zero_grad()"
    assert told(loop(gated, over=each, head=head)) == []


def test_a_loss_scaler_of_the_program_itself_is_entered() -> None:
    scaler = """
class LossScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler()

    def __call__(self, loss, optimizer, parameters):
        self._scaler.scale(loss).backward()
        {unscale}
        nn.utils.clip_grad_norm_(parameters, 1.0)
        self._scaler.step(optimizer)
        self._scaler.update()

loss_scaler = LossScaler()
"""
    body = "optimizer.zero_grad()\nloss_scaler(model(x).mean(), optimizer, model.parameters())"

    assert told(loop(body, head=HEAD + scaler.format(unscale="pass"))) == ["GK301"]
    right = scaler.format(unscale="self._scaler.unscale_(optimizer)")
    assert told(loop(body, head=HEAD + right)) == []


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
        opt_d.step()
        opt_d.zero_grad()

    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters()), torch.optim.Adam(self.d.parameters())
"""


def test_lightnings_toggle_keeps_one_loss_out_of_the_others_gradients() -> None:
    toggles = {
        "toggle": "self.toggle_optimizer(opt_g)",
        "untoggle": "self.untoggle_optimizer(opt_g)",
    }

    assert told(GAN.format(toggle="pass", untoggle="pass")) == ["GK104"]
    assert told(GAN.format(**toggles)) == []
