"""README says only what is true: its code runs, its outputs are what the commands print now."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.distributed.run import get_args_parser

from docs.tables import QUOTED, with_tables
from gradkeeper.cli import build_parser

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = load_generator()


@pytest.mark.parametrize("code", generate.python_blocks(README))
def test_a_python_block_runs(code: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)

    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_loss_of_the_wrong_loop_falls() -> None:
    telling = generate.python_blocks(README)[0].replace(
        "loss.backward()", "losses.append(loss.item()); loss.backward()"
    )

    for seed in range(10):
        torch.manual_seed(seed)
        losses: list[float] = []
        exec(telling, {"losses": losses})

        assert losses[-1] < losses[0]


def test_output_blocks_are_what_the_commands_print() -> None:
    assert generate.OUTPUT.search(README)
    assert generate.with_outputs(README) == README, "run scripts/docs"


def test_an_output_that_is_out_of_date_is_noticed() -> None:
    stale = README.replace("GK101 stale-gradient", "GK101 something-else")

    assert generate.with_outputs(stale) != stale


def test_tables_are_what_the_benchmarks_printed() -> None:
    assert QUOTED.findall(README), "README compares"
    assert with_tables(README) == README, "run scripts/docs"


def test_a_figure_that_was_typed_is_noticed() -> None:
    kept_as = QUOTED.search(README)
    assert kept_as
    changed = kept_as[0].replace("0.", "0.1")

    assert with_tables(changed) == kept_as[0] != changed


def shell_lines() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S)
    lines = [line.split("#")[0].split() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("words", shell_lines(), ids=" ".join)
def test_a_shell_line_names_what_is_there(words: list[str]) -> None:
    program, *rest = [word for word in words if not word.startswith("TORCH_")]
    if program == "torchrun":
        launched = get_args_parser().parse_args(rest)
        if not launched.module:
            return
        program, rest = launched.training_script, launched.training_script_args
    if program == "gradkeeper":
        build_parser(rest).parse_args(rest)  # ends the test where it does not understand
        return

    module = Path(*program.split(".")).with_suffix(".py")
    assert (ROOT / program).exists() or (ROOT / module).exists()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists()
