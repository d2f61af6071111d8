"""DDP decides at the forward whether a backward will exchange; FSDP2 at the backward."""

import pytest

from gradkeeper.lint import check_source
from gradkeeper.rules import ALL

HEAD = """\
import torch
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
"""
FORWARD = "loss = model(batch).square().mean() / size"
FLAG = "model.require_backward_grad_sync = number == size - 1"
SIZES = {
    "a number": ("for window in loader:", "range(4)", "4", "batch = window"),
    "the length of what is gone over": ("for window in loader:", "window", "len(window)", ""),
    "of a tensor": ("for window in torch.randn(8, 4, 16, 8):", "window", "len(window)", ""),
}


def loop(size: str, first: str, second: str) -> str:
    outer, over, length, more = SIZES[size]
    inner = "number in range(4)" if over == "range(4)" else f"number, batch in enumerate({over})"
    lines = [
        outer,
        "    optimizer.zero_grad()",
        f"    for {inner}:",
        *([f"        {more}"] if more else []),
        f"        {first.replace('size', length)}",
        f"        {second.replace('size', length)}",
        "        loss.backward()",
        "    optimizer.step()  # here",
    ]
    return HEAD + "\n".join(lines) + "\n"


def told(code: str) -> list[tuple[str, bool]]:
    lines = code.splitlines()
    return [
        (one.rule, "# here" in lines[one.line - 1])
        for one in check_source(code, "train.py", ALL).findings
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_flag_that_is_set_after_the_forward_comes_too_late(size: str) -> None:
    assert told(loop(size, FORWARD, FLAG)) == [("GK501", True)]


@pytest.mark.parametrize("size", SIZES)
def test_before_it_is_right(size: str) -> None:
    assert told(loop(size, FLAG, FORWARD)) == []


STEP = """\
for batch in loader:
    optimizer.zero_grad()
{}
    optimizer.step()  # here
"""


def test_a_backward_inside_no_sync_exchanges_if_its_forward_was_outside() -> None:
    outside = "    loss = model(batch).mean()\n    with model.no_sync():\n        loss.backward()"
    inside = "    with model.no_sync():\n        loss = model(batch).mean()\n    loss.backward()"

    assert told(HEAD + STEP.format(outside)) == []
    assert told(HEAD + STEP.format(inside)) == [("GK501", True)]


def test_gradients_that_the_program_sums_itself_are_exchanged() -> None:
    alone = "    with model.no_sync():\n        model(batch).mean().backward()\n"
    each = "    for one in model.parameters():\n        "
    summed = each + "torch.distributed.all_reduce(one.grad)\n        one.grad /= 2"
    halved = each + "one.grad /= 2"

    assert told(HEAD + STEP.format(alone + summed)) == []
    assert told(HEAD + STEP.format(alone + halved)) == [("GK501", True)]


def test_shards_are_asked_at_the_backward() -> None:
    head = HEAD.replace(
        "import torch\n", "import torch\nfrom torch.distributed.fsdp import fully_shard\n"
    )
    head = head.replace("DistributedDataParallel(torch", "fully_shard(torch")
    forward, off = "    loss = model(batch).mean()", "    model.set_requires_gradient_sync(False)"
    late = f"{forward}\n{off}\n    loss.backward()"
    back = f"{off}\n{forward}\n{off.replace('False', 'True')}\n    loss.backward()"

    assert told(head + STEP.format(late)) == [("GK501", True)]
    assert told(head + STEP.format(back)) == []


def test_shards_of_a_network_that_was_handed_in_are_asked_too() -> None:
    code = """
import torch
from torch.distributed.fsdp import fully_shard

def train(model, optimizer, loader, n):
    fully_shard(model)
    for i, (x, y) in enumerate(loader):
        model.set_requires_gradient_sync((i + 1) % n {} 0)
        loss = torch.nn.functional.mse_loss(model(x), y) / n
        loss.backward()
        if (i + 1) % n == 0:
            optimizer.step()  # here
            optimizer.zero_grad()
"""

    assert ("GK501", True) in told(code.format("!="))
    assert ("GK501", True) not in told(code.format("=="))
