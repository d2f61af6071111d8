"""How far a rehearsal follows a program: gates, helpers, objects, other ways of writing a loop."""

from tests.lint.linting import HEAD, findings, loop, told

CLASS = """
import torch
from torch import nn

class Trainer:
    def __init__(self, model, accumulate=1):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.accumulate = accumulate

    def train(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(self.model(x), y)
            {loss}.backward()
            if (i + 1) % self.accumulate == 0:
                self.finish()

    def finish(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
"""


def test_a_method_that_main_never_calls_is_rehearsed_with_unknown_arguments() -> None:
    assert told(CLASS.format(loss="loss")) == ["GK201"]
    assert told(CLASS.format(loss="(loss / self.accumulate)")) == []


def test_a_gate_by_continue_is_a_gate() -> None:
    code = loop(
        """
        (F.mse_loss(model(x), y) / 4).backward()
        if (i + 1) % 4 != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    assert told(code) == []


def test_the_last_batch_of_a_loader_is_known() -> None:
    code = loop(
        """
        (F.mse_loss(model(x), y) / 3).backward()
        if (i + 1) % 3 == 0 or i == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    assert [one.rule for one in findings(code) if one.rule == "GK203"] == []


def test_a_helper_that_zeroes_is_followed() -> None:
    helper = "def clear(opt):\n    opt.zero_grad()\n"
    body = "clear(optimizer)\nmodel(x).mean().backward()\noptimizer.step()"

    assert told(loop(body, head=HEAD + helper)) == []


def test_a_nested_function_and_its_closure_are_followed() -> None:
    code = HEAD + (
        "def train(loader):\n"
        "    def backward(loss):\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "    for x in loader:\n"
        "        backward(model(x).mean())\n"
        "train(loader)\n"
    )

    assert told(code) == ["GK101"]


def test_partial_application_keeps_its_arguments() -> None:
    helper = (
        "from functools import partial\n"
        "def update(opt, loss):\n    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
        "update = partial(update, optimizer)\n"
    )

    assert told(loop("update(model(x).mean())", head=HEAD + helper)) == []


def test_optimizers_in_a_dict_are_told_apart() -> None:
    head = (
        "import torch\nfrom torch import nn\n"
        "nets = {'a': nn.Linear(4, 1), 'b': nn.Linear(4, 1)}\n"
        "opts = {k: torch.optim.Adam(n.parameters()) for k, n in nets.items()}\n"
    )
    body = (
        "opts['a'].zero_grad()\nnets['a'](x).mean().backward()\nopts['a'].step()\n"
        "nets['b'](x).mean().backward()\nopts['b'].step()\n"
    )

    found = findings(loop(body, head=head))

    assert [(one.rule, one.site.line) for one in found if one.rule == "GK101"] == [("GK101", 10)]


def test_while_and_next_make_a_loop_like_any_other() -> None:
    body = "x = next(batches)\nmodel(x).mean().backward()\noptimizer.step()\nstep += 1"
    head = HEAD + "batches = iter(loader)\nstep = 0\n"

    assert told(loop(body, over="while step < 1000:", head=head)) == ["GK101"]


def test_what_an_option_averts_is_told_with_the_option() -> None:
    body = "if args.clear:\n    optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()"

    (finding,) = [one for one in findings(loop(body)) if one.rule == "GK101"]

    assert finding.certain
    assert finding.when == "args.clear is false"


def test_the_same_unknown_flag_gets_the_same_answer_everywhere() -> None:
    body = (
        "if args.fp16:\n    scaler.scale(model(x).mean()).backward()\n"
        "else:\n    model(x).mean().backward()\n"
        "if args.fp16:\n    scaler.step(optimizer)\n    scaler.update()\n"
        "else:\n    optimizer.step()\n"
        "optimizer.zero_grad()"
    )
    head = HEAD + "scaler = torch.amp.GradScaler()\n"

    assert told(loop(body, head=head)) == []


def test_a_fault_in_one_branch_is_certain_where_that_branch_is_taken() -> None:
    body = (
        "optimizer.zero_grad()\nloss = model(x).mean()\n"
        "if args.amp:\n    scaler.scale(loss).backward()\n"
        "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
        "else:\n    loss.backward()\n    optimizer.step()\n"
    )
    head = HEAD + "scaler = torch.amp.GradScaler(enabled=args.amp)\n"

    assert told(loop(body, head=head)) == ["GK301"]


def test_recursion_and_unknown_code_end_in_silence() -> None:
    code = (
        HEAD + "def again(n):\n    model(n).mean().backward()\n    return again(n - 1)\nagain(3)\n"
    )

    assert told(code) == []


def test_an_optimizer_handed_to_unknown_code_is_left_alone() -> None:
    body = "from_elsewhere(model, optimizer, x)\nmodel(x).mean().backward()\noptimizer.step()"

    assert told(loop(body)) == []
