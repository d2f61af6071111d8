"""README says only what is true: its code runs, its outputs are what the commands print now."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

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

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_output_blocks_are_what_the_commands_print() -> None:
    assert generate.OUTPUT.search(README)
    assert generate.with_outputs(README) == README, "run scripts/docs"


def test_an_output_that_is_out_of_date_is_noticed() -> None:
    stale = README.replace("GK101 stale-gradient", "GK101 something-else")

    assert generate.with_outputs(stale) != stale


def test_shell_lines_name_commands_and_scripts_that_are_there() -> None:
    from gradkeeper.cli import COMMANDS

    for block in re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S):
        for line in block.splitlines():
            program, *rest = line.split("#")[0].split()
            if program == "gradkeeper":
                assert rest[0] in COMMANDS
            else:
                assert (ROOT / program).exists()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists()
