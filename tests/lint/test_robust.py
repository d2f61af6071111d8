"""Whatever a file holds: a message or silence, soon, and never a traceback."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradkeeper.lint import check_source
from gradkeeper.model.finding import Severity
from gradkeeper.rules import ALL

TRAIN = "import torch\nloss.backward()\noptimizer.step()\n"
NASTY = {
    "empty": b"",
    "a NUL byte": b"loss.backward()\x00",
    "no encoding at all": b"# -*- coding: nonsense -*-\nloss.backward()\n",
    "bytes that are no text": b"loss.backward()\n\xff\xfe\xf6",
    "latin-1 as it says": "# -*- coding: latin-1 -*-\nloss.backward()  # \xe9\n".encode("latin-1"),
    "a byte order mark": b"\xef\xbb\xbfloss.backward()\n",
    "brackets 2000 deep": ("x = " + "(" * 2000 + ")" * 2000 + "\n" + TRAIN).encode(),
    "attributes 2000 deep": ("x" + ".a" * 2000 + "\n" + TRAIN).encode(),
    "calls 2000 deep": ("f(" * 80 + ")" * 80 + "\n" + TRAIN).encode(),
    "sums of 5000": ("x = " + "+".join(["a"] * 5000) + "\n" + TRAIN).encode(),
    "20000 branches": (
        "if a == 0:\n    loss.backward()\n"
        + "".join(f"elif a == {n}:\n    optimizer.step()\n" for n in range(1, 900))
        + "\n".join(f"if b == {n}:\n    optimizer.step()" for n in range(19_000))
    ).encode(),
    "functions that call each other": (
        b"def f():\n    g()\n    loss.backward()\ndef g():\n    f()\n    opt.step()\nf()\n"
    ),
    "an endless loop": (
        b"while True:\n    while True:\n        loss.backward()\n        opt.step()\n"
    ),
    "a huge range": b"for i in range(10**12):\n    loss.backward()\n    opt.step()\n",
    "a huge power": b"x = 10 ** 10 ** 10\nloss.backward()\n",
    "rows of tensors that have none": (
        b"import torch\nmodel = torch.nn.Linear(2, 2)\n"
        b"opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        b"made = [torch.linspace(0, 1.0, 5), torch.linspace(-1, 1, 0), torch.zeros(0, 3),\n"
        b"        torch.empty(-1), torch.arange(3, 0, -1), torch.arange(1, 2, 0)]\n"
        b"for i in range(9):\n    x = torch.randn(4, 2)\n"
        b"    for grid in made:\n        x = x + (grid[i] - grid[-1]) * model(x)\n"
        b"    x.mean().backward()\n    opt.step()\n    opt.zero_grad()\n"
    ),
    "a class that is its own base": (
        b"class A(A):\n    def f(self):\n        loss.backward()\nA().f()\n"
    ),
}


def never_fails(text: bytes | str) -> None:
    """No barrier may be needed, but for what is nested deeper than Python goes."""
    checked = check_source(text, "odd.py", ALL)

    assert not checked.traceback or "RecursionError" in checked.traceback


def test_this_would_notice_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradkeeper.lint.check.rehearse_files", None)

    with pytest.raises(AssertionError):
        never_fails(TRAIN)


@pytest.mark.parametrize("name", NASTY)
def test_odd_files_get_a_message_or_silence_within_seconds(name: str) -> None:
    start = time.process_time()

    never_fails(NASTY[name])

    # A second on a free machine; tests share theirs.
    assert time.process_time() - start < 4


LINES = """\
loss.backward() | optimizer.step() | optimizer.zero_grad() | model.zero_grad() | x = model(x)
scaler.scale(loss).backward() | scaler.step(optimizer) | scaler.update() | continue | break
for x in loader: | while True: | if i % n == 0: | if flag: | else: | try: | except ValueError:
finally: | pass | with torch.no_grad(): | def f(x): | class A(nn.Module): | return
optimizer = torch.optim.SGD(model.parameters()) | i += 1 | del x | p.grad = None | p.grad.zero_()
loss = F.mse_loss(model(x), x) | x = [y for y in z] | f(*a, **k) | raise | lambda: 0 | yield x
clip_grad_norm_(model.parameters(), 1) | a, *b = c | self.x = y | import torch | global i
"""
WORDS = st.sampled_from([one.strip() for one in LINES.replace("\n", "|").split("|")])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(WORDS, st.integers(0, 3)), max_size=25))
def test_made_up_programs_never_raise(lines: list[tuple[str, int]]) -> None:
    code = "\n".join("    " * depth + word for word, depth in lines)

    never_fails(code)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200))
def test_any_bytes_never_raise(raw: bytes) -> None:
    never_fails(b"loss.backward()\n" + raw)


TAKEN_AWAY = """\
import torch
from helpers import flag

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
extra = {{}}
for x in torch.randn(6, 8, 4):
    {cleared}
    model(x).square().mean().backward()
    optimizer.step()
    if flag(x):
        extra["name"] = 1
        extra.pop("name")
    torch.save({{"model": model.state_dict(), **extra}}, "a.pt")
"""


@pytest.mark.parametrize(("cleared", "codes"), [("optimizer.zero_grad()", []), ("", ["GK101"])])
def test_what_a_branch_adds_and_takes_away_again_was_never_there(
    cleared: str, codes: list[str]
) -> None:
    found = check_source(TAKEN_AWAY.format(cleared=cleared), "train.py", ALL, fixes=False).findings

    assert [one.rule for one in found if one.severity is not Severity.INFO] == codes


def test_what_is_said_does_not_hang_on_hashes() -> None:
    """Sets of words have another order in each process; nothing that is said may follow from it."""
    some = sorted((Path(__file__).parent.parent / "cases" / "bug").glob("*.py"))[::8]

    def said(seed: str) -> str:
        command = [sys.executable, "-m", "gradkeeper", "check", "--format", "json", *map(str, some)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        ).stdout

    assert said("1") == said("2")
    assert "GK101" in said("3")
