"""The listings that articles on zero_grad show, right and wrong, rewritten and run under watch."""

from pathlib import Path

import pytest

from tests.watcher.loops import run

MODEL = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = [(x, x.sum(1, keepdim=True)) for x in torch.randn({batches}, 8, 4)]
"""
LOOP = """
for i, (x, y) in enumerate(data):
"""
TENSOR = """
w = torch.zeros(4, requires_grad=True)
for x in torch.randn(8, 16, 4):
"""


def training(body: str, *, batches: int = 8, before: str = "") -> str:
    lines = [f"    {line}" for line in body.strip().splitlines()]
    return MODEL.format(batches=batches) + before + LOOP + "\n".join(lines) + "\n"


def by_hand(body: str) -> str:
    return TENSOR + "\n".join(f"    {line}" for line in body.strip().splitlines()) + "\n"


LOSS = "loss = F.mse_loss(model(x), y)\n"
BACKWARD, STEP, ZERO = "loss.backward()\n", "optimizer.step()\n", "optimizer.zero_grad()\n"
FIVE_LINES = ZERO + LOSS + BACKWARD + STEP
WINDOW = "(F.mse_loss(model(x), y) / 4).backward()\n"
WHEN_FULL = "if (i + 1) % 4 == 0:\n    "
DESCENT = "(x @ w - 1).square().mean().backward()\nwith torch.no_grad():\n    w -= 0.1 * w.grad\n"
SAVED = """
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "a.pt")
state = torch.load("a.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
"""
PENDING = """
F.mse_loss(model(data[0][0]), data[0][1]).backward()
torch.save({"model": model.state_dict(), "grads": [p.grad for p in model.parameters()]}, "a.pt")
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
state = torch.load("a.pt")
model.load_state_dict(state["model"])
for p, grad in zip(model.parameters(), state["grads"]):
    p.grad = grad
"""

RIGHT = {
    "the five-line loop": training(FIVE_LINES),
    "zero between forward and backward": training(LOSS + ZERO + BACKWARD + STEP),
    "zero after the step": training(LOSS + BACKWARD + STEP + ZERO),
    "accumulation that divides": training(
        WINDOW + WHEN_FULL + "optimizer.step(); optimizer.zero_grad()"
    ),
    "zero where the window begins": training(
        "if i % 4 == 0:\n    optimizer.zero_grad()\n" + WINDOW + WHEN_FULL + "optimizer.step()"
    ),
    "two losses, one step": training(
        ZERO + LOSS + "loss.backward()\nmodel.weight.square().sum().backward()\n" + STEP
    ),
    "a tensor, zeroed with a check": by_hand(
        "if w.grad is not None:\n    w.grad.zero_()\n" + DESCENT
    ),
    "a tensor, set to none": by_hand(DESCENT + "w.grad = None"),
    "resumed after a step": training(FIVE_LINES, before=SAVED),
    "pending gradients restored and spent": training(
        FIVE_LINES, before=PENDING + "optimizer.step()"
    ),
}
WRONG = {
    "no zero": (training(LOSS + BACKWARD + STEP), "GK101", "optimizer.step()"),
    "zero between backward and step": (
        training(LOSS + BACKWARD + ZERO + STEP),
        "GK102",
        "optimizer.zero_grad()",
    ),
    "accumulation that drops its tail": (
        training(WINDOW + WHEN_FULL + "optimizer.step(); optimizer.zero_grad()", batches=10),
        "GK203",
        "(F.mse_loss",
    ),
    "accumulation not divided": (
        training(LOSS + BACKWARD + WHEN_FULL + "optimizer.step(); optimizer.zero_grad()"),
        "GK201",
        "optimizer.step()",
    ),
    "a counter from zero": (
        training(WINDOW + "if i % 4 == 0:\n    optimizer.step(); optimizer.zero_grad()"),
        "GK202",
        "optimizer.step()",
    ),
    "a tensor that is never zeroed": (by_hand(DESCENT), "GK101", "(x @ w - 1)"),
    "a step right after loading": (
        training(FIVE_LINES, before=SAVED + "optimizer.step()"),
        "GK103",
        "optimizer.step()",
    ),
    "saved between backward and step": (
        training(
            ZERO + LOSS + BACKWARD
            + 'torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, "b.pt")\n' + STEP
        ),
        "GK401",
        "torch.save",
    ),
    "pending gradients restored and zeroed": (
        training(FIVE_LINES, before=PENDING),
        "GK402",
        "optimizer.zero_grad()",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_listing_is_silent(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, RIGHT[name]).found == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_listing_is_named_at_its_line(name: str, tmp_path: Path) -> None:
    code, rule, words = WRONG[name]

    loop = run(tmp_path, code)

    assert {one.rule for one in loop.watch.findings} >= {rule}
    assert f"{rule}:{loop.line(words)}" in loop.found


def test_zeroing_a_tensor_without_a_check_fails_as_without_watch(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="zero_"):
        run(tmp_path, by_hand("w.grad.zero_()\n" + DESCENT))


def test_the_second_step_sees_the_sum_of_both_gradients(tmp_path: Path) -> None:
    code = """
    w = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    seen = []
    for slope in ([-0.1, 0.2, -0.05], [0.05, -0.1, 0.1]):
        (w * torch.tensor(slope)).sum().backward()
        seen.append(w.grad.clone())
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.variables["seen"][1].tolist() == pytest.approx([-0.05, 0.1, 0.05])
    assert loop.found == [f"GK101:{loop.line('optimizer.step()')}"]
