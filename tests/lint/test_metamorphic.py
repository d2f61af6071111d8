"""What does not change the meaning of a script does not change what is told of it."""

import contextlib
import io
import os
import re
import runpy
import sys
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.lint import guesses
from tests.lint.linting import told
from tests.lint.transform import REWRITES, SCRIPT, Program, original, rewrite, unchanged, written
from tests.lint.verdicts import Verdict, read

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/*.py"))
EVERY = 12
"""One script in so many by default, all of them with --slow."""
SHOWN = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def error(net, x, y):
    return (net(x) - y).square().mean()


torch.manual_seed(0)
net = Net()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
pairs = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(7)]
total = 0.0
for epoch in range(2):
    for i, (x, y) in enumerate(pairs):
        loss = error(net, x, y)
        loss.backward()
        if (i + 1) % 2:
            continue
        sgd.step()
        print(epoch, i, float(loss), float(net.head.weight.sum()))
"""


GUESSED = {
    "OPTIMIZER": """
def train(model, loader, optimizers, criterion):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
""",
    "ACCUMULATES": """
def train(model, loader, optimizer, accumulation):
    for i, x in enumerate(loader):
        model(x).loss.backward()
        if (i + 1) % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
}
"""By the entry of guesses.py that a verdict hangs on: what is not told after renaming."""


def rewritten(source: str, name: str) -> Program | None:
    files = rewrite(original(source), [name])
    return written(files) if files else None


def moved_back(found: set[Verdict], program: Program) -> list[tuple[str, int | None]]:
    """Rules and lines, in the numbers of the original."""
    certain = [one for one in found if one.certain]
    return sorted((one.rule, program.origins[one.file].get(one.line)) for one in certain)


def differences(name: str, sources: dict[str, str], folder: Path) -> list[str]:
    """The scripts of which this rewrite makes the linter say something else."""
    before = {}
    after = {}
    for key, source in sources.items():
        program = rewritten(source, name)
        if program:
            before[key] = written(unchanged(original(source)))
            after[key] = program
    found_before = read(folder / "before", {key: one.texts for key, one in before.items() if one})
    found_after = read(folder / "after", {key: one.texts for key, one in after.items()})
    told = []
    for key, program in after.items():
        plain = before[key]
        if plain is None:
            continue
        was, now = moved_back(found_before[key], plain), moved_back(found_after[key], program)
        if was != now:
            told.append(f"{key}: {was} before, {now} after\n" + "\n".join(program.texts.values()))
    return told


def scripts(*, every: int) -> dict[str, str]:
    return {f"{path.parent.name}_{path.stem}": path.read_text() for path in CASES[::every]}


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_changes_no_verdict(name: str, tmp_path: Path) -> None:
    assert differences(name, {"shown": SHOWN, **scripts(every=EVERY)}, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_changes_no_verdict_on_any_script(name: str, tmp_path: Path) -> None:
    assert differences(name, scripts(every=1), tmp_path) == []


@pytest.mark.parametrize("entry", GUESSED)
def test_what_hangs_on_names_hangs_on_an_entry_of_the_guesses(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = written(unchanged(original(GUESSED[entry])))
    program = rewritten(GUESSED[entry], "renamed")
    assert plain
    assert program

    assert told(plain.texts[SCRIPT]) != told(program.texts[SCRIPT])

    forget(monkeypatch, entry)

    assert told(plain.texts[SCRIPT]) == told(program.texts[SCRIPT])


@pytest.mark.slow
def test_without_guesses_no_verdict_hangs_on_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry, pattern in vars(guesses).copy().items():
        if isinstance(pattern, re.Pattern):
            forget(monkeypatch, entry)
    hanging = []

    for key, source in scripts(every=1).items():
        plain, program = written(unchanged(original(source))), rewritten(source, "renamed")
        if plain and program and told(plain.texts[SCRIPT]) != told(program.texts[SCRIPT]):
            hanging.append(key)

    assert hanging == []


def forget(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    """An entry that matches nothing any more."""
    monkeypatch.setattr(guesses, entry, re.compile(r"(?!)"))
    for one in vars(guesses).values():
        if hasattr(one, "cache_clear"):
            one.cache_clear()


@pytest.fixture(autouse=True)
def _guesses_as_they_were() -> Iterator[None]:
    yield
    for one in vars(guesses).values():
        if hasattr(one, "cache_clear"):
            one.cache_clear()


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewritten_script_prints_what_it_printed(name: str, tmp_path: Path) -> None:
    program = rewritten(SHOWN, name)
    assert program

    before = printed({SCRIPT: SHOWN}, tmp_path / "before")

    assert words_of(printed(program.texts, tmp_path / "after")) == words_of(before)


@pytest.mark.slow
@pytest.mark.parametrize("script", CASES[::5], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_rewritten_cases_print_what_they_printed(script: Path, tmp_path: Path) -> None:
    source = script.read_text()
    before = printed({SCRIPT: source}, tmp_path / "before")

    for name in REWRITES:
        program = rewritten(source, name)
        if program:
            after = printed(program.texts, tmp_path / name)
            assert words_of(after) == words_of(before), name


def test_the_comparison_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_zero(tree: Any) -> Any:
        return {SCRIPT: original("\n".join(["pass", *SHOWN.replace("sgd.step()", "").split("\n")]))}

    monkeypatch.setitem(REWRITES, "without_zero", without_zero)

    assert differences("without_zero", {"shown": SHOWN}, tmp_path)


def words_of(text: str) -> list[str]:
    """The lines, those aside that a rewrite adds; where an error stands, rewriting moves."""
    lines = re.sub(r"(\w+\.py):\d+", r"\1", text).splitlines()
    return [line for line in lines if line != "one round more" and not line.isdigit()]


def printed(texts: dict[str, str], folder: Path) -> str:
    """What a program prints, run in a fork so that its imports and seeds are its own."""
    _warm_up()
    folder.mkdir()
    for file, text in texts.items():
        (folder / file).write_text(text)
    answer = folder / "printed.txt"
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking beside torch's idle threads
        child = os.fork()
    if child == 0:
        _in_child(folder, answer)
    os.waitpid(child, 0)
    return answer.read_text()


@cache
def _warm_up() -> None:
    """The first optimizer of a process imports much of torch: once here, and in no child."""
    torch.optim.SGD([torch.zeros(1)])


def _in_child(folder: Path, answer: Path) -> None:
    """Never returns."""
    out = io.StringIO()
    try:
        os.chdir(folder)
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        sys.path.insert(0, str(folder))
        sys.argv = [SCRIPT]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            runpy.run_path(SCRIPT, run_name="__main__")
    except BaseException:
        error = traceback.format_exc().splitlines()[-1]
        out.write(f"raised {error}\n")
    answer.write_text(out.getvalue())
    os._exit(0)
