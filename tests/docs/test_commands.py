"""Commands on the pages are commands: they run, or it is said here what runs them, or why not.

A command with words of its own runs in a folder as a reader may have it (`desk`). One that is bare,
as a name for what it does, is only read: that it is there, and that it has the options told.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import pages
from gradkeeper.cli import COMMANDS, build_parser
from tests.cli.test_also import STALE

ROOT = pages.DOCS.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", pages.DOCS / "wild.md"]
READ = [*PAGES, *pages.hand_written(), ROOT / "CHANGELOG.md"]
"""The changelog tells of commands, and is no place to try them."""
FENCE = re.compile(r"^ *```sh\n(.*?)^ *```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
OURS = re.compile(rf"\bgradkeeper ((?:{'|'.join(COMMANDS)})\b[^`\n#]*)")
SCRIPT = re.compile(r"\bscripts/(\w+)\b(?!/)(?: (?:--docs )?([a-z]\w*))?")


def commands(text: str) -> Iterator[str]:
    """What a page says in fences for a shell, and between words, of the command line."""
    said = [line for block in FENCE.findall(text) for line in block.splitlines()]
    for line in (*said, *SPAN.findall(re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S))):
        yield from (found.strip() for found in OURS.findall(line))


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def unknown(command: str) -> list[str]:
    """The options in a command that it does not have."""
    name, *words = command.split()
    parser = parsers(build_parser())[name]
    known = {option for action in parser._actions for option in action.option_strings}
    for inner in parsers(parser).values():
        known |= {option for action in inner._actions for option in action.option_strings}
    own: list[str] = []
    for word in words:
        script = word.endswith(".py") or own[-1:] == ["-m"]
        if word == "--" or (name == "run" and script):
            break  # the rest is for another program
        own.append(word)
    return [word for word in own if word.startswith("--") and word.split("=")[0] not in known]


@pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)
def test_a_command_has_the_options_that_a_page_says(page: Path) -> None:
    wrong = {command: unknown(command) for command in commands(page.read_text())}

    assert {command: options for command, options in wrong.items() if options} == {}


@pytest.mark.parametrize("page", READ, ids=lambda page: page.stem)
def test_a_script_that_a_page_names_is_there(page: Path) -> None:
    for script, name in SCRIPT.findall(page.read_text()):
        assert (ROOT / "scripts" / script).is_file()
        if script == "bench" and name:
            assert (ROOT / "bench" / f"{name}.py").is_file()


def test_an_option_that_is_not_there_would_be_noticed() -> None:
    page = (
        "Say `gradkeeper check --frobnicate src/`:\n\n```sh\ngradkeeper run --tapes a train.py\n```"
    )

    assert [unknown(command) for command in commands(page)] == [["--tapes"], ["--frobnicate"]]
    assert unknown("run --tape a train.py --epochs 3") == []
    assert unknown("run -m my_package.train --epochs 3") == []


def test_commands_are_read_from_pages() -> None:
    assert len(list(commands((ROOT / "README.md").read_text()))) > 8


MENDED = f"{STALE}    optimizer.zero_grad()\n"
RESUMED = """\
import torch
from gradkeeper import Engine

torch.manual_seed(0)
data = [torch.randn(8, 4) for _ in range(8)]
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine = Engine(model, optimizer, checkpoint="runs/a", save_every=1)
engine.resume()
for window in engine.windows(data, size=2, epochs=2):
    with window:
        for x in window:
            window.backward(model(x).square().mean())


def probe():
    return engine, lambda window: window.backward(model(data[0]).square().mean())
"""
THEIRS = """\
import os
import torch
from safetensors.torch import save_file

weights = {"weight": torch.ones(1)}
torch.save({"model": weights}, "theirs.pt")
os.mkdir("llama")
save_file(weights, "llama/model.safetensors")
"""
"""Weights as others leave them."""
ELSEWHERE = {
    "uvx --from . gradkeeper check examples": "test_package.py: of the wheel, with --slow",
    "gradkeeper check --watch src/": "cli/test_watch.py: it ends by Ctrl-C only",
    "gradkeeper doctor --probe train.py:probe": "cli/test_doctor.py: with a probe",
    "gradkeeper run train_with_accelerate.py": "examples/test_peers.py: with --slow, Accelerate",
    "gradkeeper checkpoint show|verify|diff": "cli/test_checkpoint.py: three commands in one word",
    "gradkeeper replay FILE --report page.html": "cli/test_replay.py: FILE is any tape",
    "gradkeeper run --tape run.tape": "watcher/test_run.py: with a script",
    "gradkeeper check --fix --select GK603": "lint/test_fixes.py: with files",
    "scripts/demo": "cli/test_demo.py: what it starts; it makes an environment itself",
    "scripts/test": "docs/test_commands.py: that it is there; it is what runs this",
    "scripts/check --fix": "docs/test_commands.py: that it is there; it would rewrite the tree",
    "torchrun --nproc-per-node 2 -m gradkeeper run train.py": "test_readme.py: of another name",
    "torchrun --nproc-per-node 2 -m gradkeeper run "
    "examples/exchanged_too_early.py": "test_readme.py: with its output",
    "gradkeeper prove-resume -- python examples/exact_resume.py": "test_readme.py: with its output",
    "pip install '.[torch]'": "test_package.py: that the extra is there; torch itself is here",
    "torchrun --nproc-per-node 2 -m examples.characters_ranks": "examples/test_examples.py",
    "torchrun --nproc-per-node 2 -m examples.characters_ranks --fsdp": "examples/test_examples.py",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --nproc-per-node 2 --max-restarts 3 "
    "-m examples.characters_ranks --fsdp --folder runs/a": "engine/ranks/test_killed.py",
}
"""What is not run here: the tests that do, and what keeps it from running here."""
EXITS = {"check": {0, 1}, "run": {0, 1}, "doctor": {0, 1}}
"""Findings are no failure, and what the doctor finds is this machine's."""


def lines(text: str) -> Iterator[str]:
    """The commands of a page: whole lines of its shell fences, and ours in code with words."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = " ".join(line.split(" #")[0].split())
            if command and not command.startswith("#"):
                yield command
    for found in commands(re.sub(FENCE, "", text)):
        if len(found.split()) > 1:
            yield f"gradkeeper {found}"


def all_lines() -> list[str]:
    texts = [page.read_text() for page in (*PAGES, *pages.hand_written())]
    return list(dict.fromkeys(line for text in texts for line in lines(text)))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder as a reader may have it."""
    for folder in ("src", "notebooks", "my_package", "examples"):
        (tmp_path / folder).mkdir()
    first = Path("examples", "exchanged_too_early.py")
    (tmp_path / first).write_text((ROOT / first).read_text())
    (tmp_path / "train.py").write_text(MENDED)
    (tmp_path / "src" / "train.py").write_text(STALE)
    (tmp_path / "my_package" / "train.py").write_text(f"import sys\n{MENDED}")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": MENDED}
    cells = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebooks" / "loop.ipynb").write_text(json.dumps(cells))
    return tmp_path


def ran(command: list[str], desk: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=desk,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize("line", [one for one in all_lines() if one not in ELSEWHERE])
def test_a_command_on_a_page_runs(line: str, desk: Path) -> None:
    program, *words = shlex.split(line)
    assert program == "gradkeeper", f"{line}: neither run here nor told why not"
    if words[0] == "prove-resume" or "runs/a" in words:
        (desk / "train.py").write_text(RESUMED)
        if "runs/a" in words:
            subprocess.run([sys.executable, "train.py"], cwd=desk, check=True, timeout=600)
    if words[0] == "replay":
        assert ran(["gradkeeper", "run", "--tape", words[1], "train.py"], desk).returncode == 0
    if words[:2] == ["checkpoint", "import"]:
        subprocess.run([sys.executable, "-c", THEIRS], cwd=desk, check=True, timeout=600)
    if words[0] == "prove-resume":
        words.insert(1, "--kills=1")

    done = ran(["gradkeeper", *words], desk)

    said = done.stdout + done.stderr
    assert done.returncode in EXITS.get(words[0], {0}), said
    assert "Traceback" not in said


def test_what_runs_the_others_is_there() -> None:
    assert set(ELSEWHERE) <= set(all_lines())
    for told in ELSEWHERE.values():
        assert (ROOT / "tests" / told.split(":")[0]).is_file()


def test_a_command_that_nobody_runs_would_be_noticed() -> None:
    page = "```sh\nmake train  # all\n```\n\n`gradkeeper check src/` and `gradkeeper check`"

    assert list(lines(page)) == ["make train", "gradkeeper check src/"]
    assert "make train" not in ELSEWHERE
