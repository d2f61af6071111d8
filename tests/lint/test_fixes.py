"""Fixes: byte-exact edits whose result parses, checks clean, and trains like a hand-fixed twin."""

import ast
import re
from dataclasses import replace

import pytest

from gradkeeper.lint import check_source
from gradkeeper.lint.fixes import apply, attach
from gradkeeper.model.finding import Finding
from gradkeeper.rules import ALL
from tests.lint.linting import HEAD, loop

SEED = "import torch\ntorch.manual_seed(0)\n"
AMP = HEAD + "scaler = torch.amp.GradScaler('cpu', init_scale=64.0)\n"
DATA = "for x in torch.randn(6, 8, 4):"


def again(code: str) -> list[Finding]:
    return check_source(code, "train.py", ALL, fixes=False).findings


def fixed(code: str, rule: str) -> str:
    found = check_source(code, "train.py", ALL).findings
    new, done = apply(code, [one for one in found if one.rule == rule])
    assert done, f"no fix for {rule}"
    return new


def weights(code: str) -> bytes:
    torch = pytest.importorskip("torch")
    names: dict[str, object] = {}
    exec(compile(SEED + code, "twin.py", "exec"), names)
    held = names.get("w") if "w" in names else names["model"].weight  # type: ignore[attr-defined]
    assert isinstance(held, torch.Tensor)
    return bytes(held.detach().numpy().tobytes())


CASES = {
    "GK101": (
        loop("model(x).square().mean().backward()\noptimizer.step()", over=DATA),
        loop(
            "optimizer.zero_grad()\nmodel(x).square().mean().backward()\noptimizer.step()",
            over=DATA,
        ),
    ),
    "GK102": (
        loop(
            "model(x).square().mean().backward()\noptimizer.zero_grad()\noptimizer.step()",
            over=DATA,
        ),
        loop(
            "optimizer.zero_grad()\nmodel(x).square().mean().backward()\noptimizer.step()",
            over=DATA,
        ),
    ),
    "GK603": (
        loop(
            "loss = model(x).square().mean()\noptimizer.zero_grad()\n"
            "loss.backward()\noptimizer.step()",
            over=DATA,
        ),
        loop(
            "optimizer.zero_grad()\nloss = model(x).square().mean()\n"
            "loss.backward()\noptimizer.step()",
            over=DATA,
        ),
    ),
    "GK301": (
        loop(
            "optimizer.zero_grad()\nscaler.scale(model(x).square().mean()).backward()\n"
            "nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
            "scaler.step(optimizer)\nscaler.update()",
            over=DATA,
            head=AMP,
        ),
        loop(
            "optimizer.zero_grad()\nscaler.scale(model(x).square().mean()).backward()\n"
            "scaler.unscale_(optimizer)\n"
            "nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
            "scaler.step(optimizer)\nscaler.update()",
            over=DATA,
            head=AMP,
        ),
    ),
    "GK303": (
        loop(
            "optimizer.zero_grad()\nscaler.scale(model(x).square().mean()).backward()\n"
            "scaler.step(optimizer)",
            over=DATA,
            head=AMP,
        ),
        loop(
            "optimizer.zero_grad()\nscaler.scale(model(x).square().mean()).backward()\n"
            "scaler.step(optimizer)\nscaler.update()",
            over=DATA,
            head=AMP,
        ),
    ),
    "GK601": (
        loop(
            "w.grad.zero_()\n(x @ w - 1).square().mean().backward()\n"
            "with torch.no_grad():\n    w -= 0.1 * w.grad",
            over=DATA,
            head="import torch\nw = torch.zeros(4, requires_grad=True)\n",
        ),
        loop(
            "if w.grad is not None:\n    w.grad.zero_()\n(x @ w - 1).square().mean().backward()\n"
            "with torch.no_grad():\n    w -= 0.1 * w.grad",
            over=DATA,
            head="import torch\nw = torch.zeros(4, requires_grad=True)\n",
        ),
    ),
    "GK306": (
        loop(
            "optimizer.zero_grad()\nmodel(x).square().mean().backward()\n"
            "nn.utils.clip_grad_norm_(params, 0.1)\noptimizer.step()",
            over=DATA,
            head=HEAD.replace("(model.parameters()", "(params").replace(
                "optimizer =", "params = model.parameters()\noptimizer ="
            ),
        ),
        loop(
            "optimizer.zero_grad()\nmodel(x).square().mean().backward()\n"
            "nn.utils.clip_grad_norm_(params, 0.1)\noptimizer.step()",
            over=DATA,
            head=HEAD.replace("(model.parameters()", "(params").replace(
                "optimizer =", "params = list(model.parameters())\noptimizer ="
            ),
        ),
    ),
}


UNGATED = (
    "scaler.scale(model(x).square().mean() / 2).backward()\n"
    "if (i + 1) % 2 == 0:\n    scaler.step(optimizer)\n{inside}    optimizer.zero_grad()\n{after}"
)
EACH = f"for i, x in enumerate({DATA[9:-1]}):"
GROWING = AMP.replace("64.0", "64.0, growth_interval=1")
CASES["GK303 in a window"] = (
    loop(UNGATED.format(inside="", after="scaler.update()\n"), over=EACH, head=GROWING),
    loop(UNGATED.format(inside="    scaler.update()\n", after=""), over=EACH, head=GROWING),
)


@pytest.mark.parametrize("rule", CASES)
def test_a_fix_parses_and_checks_clean(rule: str) -> None:
    new = fixed(CASES[rule][0], rule[:5])

    left = [one.rule for one in check_source(new, "train.py", ALL).findings]

    ast.parse(new)
    assert rule[:5] not in left


@pytest.mark.parametrize("rule", CASES)
def test_a_fixed_program_trains_bit_for_bit_like_its_hand_fixed_twin(rule: str) -> None:
    broken, twin = CASES[rule]

    assert weights(fixed(broken, rule[:5])) == weights(twin)


def test_the_twin_test_can_fail() -> None:
    broken, twin = CASES["GK101"]

    assert weights(broken) != weights(twin)


@pytest.mark.parametrize("rule", ["GK102", "GK303"])
def test_a_fix_asks_what_a_line_did_not_how_the_note_beside_it_is_worded(rule: str) -> None:
    code = CASES[rule][0]
    found = check_source(code, "train.py", ALL).findings

    reworded = [
        replace(
            one,
            because=tuple(replace(reason, note="…") for reason in reversed(one.because)),
            fix=None,
        )
        for one in found
    ]

    attached = attach(reworded, code, "train.py", ast.parse(code), again)
    assert [one.fix for one in attached] == [one.fix for one in found]


def test_a_step_in_another_file_moves_no_line_of_this_one() -> None:
    code = CASES["GK102"][0]
    found = check_source(code, "train.py", ALL).findings
    elsewhere = [
        replace(
            one,
            because=tuple(
                replace(line, site=line.site._replace(file="other.py")) for line in one.because
            ),
        )
        for one in found
    ]

    assert found[0].fix is not None
    (unfixed,) = attach(elsewhere, code, "train.py", ast.parse(code), again)
    assert unfixed.fix is None


def test_a_silenced_fault_keeps_no_other_from_being_fixed() -> None:
    twice = loop("model(x).mean().backward()\noptimizer.step()  # noqa: GK101")
    second = (
        "other = nn.Linear(4, 1)\nlate = torch.optim.SGD(other.parameters(), lr=0.1)\n"
        "for x in loader:\n    other(x).mean().backward()\n    late.step()\n"
    )

    found = check_source(twice + second, "train.py", ALL).findings

    assert [one.fix is not None for one in found if one.rule == "GK101"] == [True]


def test_a_zero_never_lands_inside_an_accumulation() -> None:
    code = loop(
        """
        (F.mse_loss(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    new = fixed(code, "GK101")

    assert re.search(r"\n        optimizer\.step\(\)\n        optimizer\.zero_grad\(\)\n", new)


def test_formatting_and_comments_elsewhere_stay_as_they_are() -> None:
    code = loop("model( x ).mean( ).backward()   # odd\noptimizer.step()  # spend", over=DATA)

    new = fixed(code, "GK101")

    assert new.replace("    optimizer.zero_grad()\n", "") == code


def test_windows_line_ends_stay() -> None:
    code = CASES["GK101"][0].replace("\n", "\r\n")

    new = fixed(code, "GK101")

    assert "\n" not in new.replace("\r\n", "")


def test_lines_are_counted_as_python_counts_them() -> None:
    code = "# one\x0ctwo\u2028three\n" + CASES["GK101"][0]

    new = fixed(code, "GK101")

    assert new.replace("    optimizer.zero_grad()\n", "") == code
    assert "optimizer.step()\n    optimizer.zero_grad()\n" in new


def test_a_line_that_moves_takes_its_comment_along() -> None:
    code = CASES["GK102"][0].replace("zero_grad()", "zero_grad()  # for the next round")

    new = fixed(code, "GK102")

    assert sorted(new.splitlines()) == sorted(code.splitlines())
