"""What must not fire: the "Not:" clauses of the rules, in code that people really write."""

import pytest

from tests.lint.linting import HEAD, loop, told

TWO = """\
import torch
from torch import nn
import torch.nn.functional as F

G, D = nn.Linear(4, 4), nn.Linear(4, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())
"""

CLEAN = {
    "a trunk shared by two optimizers": (
        TWO.replace("D.parameters()", "[*G.parameters(), *D.parameters()]"),
        "opt_g.zero_grad()\nopt_d.zero_grad()\nD(G(x)).mean().backward()\nopt_g.step()\nopt_d.step()",
    ),
    "a gan that zeroes each network before its own backward": (
        TWO,
        "fake = G(x)\n"
        "opt_d.zero_grad()\n(D(fake.detach()).mean() - D(x).mean()).backward()\nopt_d.step()\n"
        "opt_g.zero_grad()\n(-D(fake).mean()).backward()\nopt_g.step()",
    ),
    "requires_grad toggles that make zeroing after the step safe": (
        TWO,
        "D.requires_grad_(True)\nD(G(x).detach()).mean().backward()\n"
        "opt_d.step()\nopt_d.zero_grad()\n"
        "D.requires_grad_(False)\n(-D(G(x)).mean()).backward()\nopt_g.step()\nopt_g.zero_grad()",
    ),
    "one loss with two optimizers": (
        TWO,
        "opt_g.zero_grad()\nopt_d.zero_grad()\nD(G(x)).mean().backward()\nopt_d.step()\nopt_g.step()",
    ),
    "a critic at another rhythm": (
        TWO.replace("import torch\n", "import torch\nstep = 0\n", 1),
        "opt_d.zero_grad()\nD(G(x).detach()).mean().backward()\nopt_d.step()\n"
        "opt_g.zero_grad()\n"
        "if step % 5 == 0:\n    (-D(G(x)).mean()).backward()\n    opt_g.step()\nstep += 1",
    ),
    "several losses of one batch": (
        HEAD,
        "optimizer.zero_grad()\nout = model(x)\nout.mean().backward(retain_graph=True)\n"
        "out.square().mean().backward()\noptimizer.step()",
    ),
    "time steps of one batch": (
        HEAD,
        "optimizer.zero_grad()\nfor t in range(5):\n    model(x[t]).mean().backward()\n"
        "optimizer.step()",
    ),
    "sums": (
        HEAD,
        "F.mse_loss(model(x), x, reduction='sum').backward()\n"
        "count += 1\nif count % 4 == 0:\n    optimizer.step()\n    optimizer.zero_grad()",
    ),
    "clearing through the module": (
        HEAD,
        "model.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()",
    ),
    "clearing by setting .grad to None": (
        HEAD,
        "for p in model.parameters():\n    p.grad = None\n"
        "model(x).mean().backward()\noptimizer.step()",
    ),
    "an adversarial input": (
        HEAD,
        "x.requires_grad_()\nmodel(x).mean().backward()\nmodel.zero_grad()\n"
        "model(x + x.grad.sign()).mean().backward()\noptimizer.step()\noptimizer.zero_grad()",
    ),
    "gradients read for a Fisher matrix": (
        HEAD + "fisher = []\n",
        "model.zero_grad()\nmodel(x).mean().backward()\n"
        "for p in model.parameters():\n    fisher.append(p.grad.clone() ** 2)\n"
        "model.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()",
    ),
    "a norm measured with an infinite bound": (
        HEAD,
        "optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()\n"
        "nn.utils.clip_grad_norm_(model.parameters(), float('inf'))",
    ),
    "clipping parameters that are a list": (
        HEAD + "params = list(model.parameters())\n",
        "optimizer.zero_grad()\nmodel(x).mean().backward()\n"
        "nn.utils.clip_grad_norm_(params, 1.0)\noptimizer.step()",
    ),
    "a scheduler that is fed a measurement": (
        HEAD + "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n",
        "optimizer.zero_grad()\nloss = model(x).mean()\nplateau.step(loss)\n"
        "loss.backward()\noptimizer.step()",
    ),
    "autograd.grad, which fills no .grad": (
        HEAD,
        "optimizer.zero_grad()\ntorch.autograd.grad(model(x).mean(), model.parameters())\n"
        "model(x).mean().backward()\noptimizer.step()",
    ),
    "a frozen model inside the loss": (
        HEAD + "teacher = nn.Linear(4, 1)\nteacher.requires_grad_(False)\n",
        "optimizer.zero_grad()\nF.mse_loss(model(x), teacher(x)).backward()\noptimizer.step()",
    ),
    "no_sync on all but the last micro-batch": (
        HEAD + "model = nn.parallel.DistributedDataParallel(model)\ni = 0\n",
        "i += 1\nif i % 4:\n    with model.no_sync():\n"
        "        (F.mse_loss(model(x), x) / 4).backward()\n"
        "else:\n    (F.mse_loss(model(x), x) / 4).backward()\n"
        "    optimizer.step()\n    optimizer.zero_grad()",
    ),
    "a skipped bad batch": (
        HEAD,
        "optimizer.zero_grad()\nloss = model(x).mean()\n"
        "if not torch.isfinite(loss):\n    continue\n"
        "loss.backward()\noptimizer.step()",
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_correct_code_is_left_alone(name: str) -> None:
    head, body = CLEAN[name]
    head = head + "count = 0\n" if name == "sums" else head

    assert told(loop(body, head=head)) == []


def test_the_guard_can_fail_a_gan_that_zeroes_only_after_its_own_step() -> None:
    body = (
        "D(G(x).detach()).mean().backward()\nopt_d.step()\nopt_d.zero_grad()\n"
        "(-D(G(x)).mean()).backward()\nopt_g.step()\nopt_g.zero_grad()"
    )

    assert told(loop(body, head=TWO)) == ["GK104"]


def test_a_function_called_once_is_no_loop() -> None:
    assert told(HEAD + "def once(x):\n    model(x).mean().backward()\n    optimizer.step()\n") == []


def test_a_new_head_that_the_optimizer_never_saw_is_an_orphan() -> None:
    head = (
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.body = nn.Linear(4, 4)\n        self.head = nn.Linear(4, 1)\n"
        "    def forward(self, x):\n        return self.head(self.body(x))\n"
        "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model.head = nn.Linear(4, 3)\n"
    )
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()"

    assert told(loop(body, head=head)) == ["GK105"]


PENALTY = """
critic = nn.Linear(4, 1)
optimizer = torch.optim.Adam(critic.parameters())
for x in loader:
    inputs = (x * 0.5).requires_grad_(True)
    out = critic(inputs)
    grad = torch.autograd.grad(out, inputs, torch.ones_like(out), create_graph=True)[0]
    loss = critic(x).mean() + (grad.norm(2, dim=1) - 1).square().mean()
    {body}
"""


def test_the_input_of_a_gradient_penalty_excuses_no_discarded_gradient() -> None:
    zero, back, step = "optimizer.zero_grad()", "loss.backward()", "optimizer.step()"
    good = PENALTY.format(body="; ".join((zero, back, step)))
    bad = PENALTY.format(body="; ".join((back, zero, step)))

    assert told("import torch\nfrom torch import nn\n" + good) == []
    assert told("import torch\nfrom torch import nn\n" + bad) == ["GK102"]
