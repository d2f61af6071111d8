"""README says only what is true: its code runs, its outputs are what the commands print now."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from torch.distributed.run import get_args_parser

from docs.tables import QUOTED, with_tables
from gradkeeper.cli import build_parser
from gradkeeper.lint import check_source
from gradkeeper.rules import ALL

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

# A rank that ends while gloo's thread still holds the last exchange is aborted by torch 2.13 on a
# busy machine: the thread asks for the GIL of an interpreter that is going down (pytorch#190489).
# Nine of fifty such ends were, with or without destroy_process_group(); none that lingered.
LINGER = "\n__import__('time').sleep(1)\n"


@pytest.mark.parametrize("code", generate.python_blocks(README))
def test_a_python_block_runs(code: str, tmp_path: Path) -> None:
    of_ranks = "init_process_group" in code
    script = tmp_path / "train.py"
    script.write_text(code + (LINGER if of_ranks else ""))

    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

    done = subprocess.run(
        [sys.executable, *(launcher if of_ranks else []), script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_the_first_loop_is_the_example_and_the_source_tells_of_it_too() -> None:
    code = generate.python_blocks(README)[0]

    (found,) = check_source(code, "train.py", ALL).findings

    assert code == (ROOT / "examples" / "exchanged_too_early.py").read_text()
    assert (found.rule, code.splitlines()[found.line - 1].strip()) == ("GK501", "optimizer.step()")


def test_the_engine_s_loop_passes_the_proof_below_it(tmp_path: Path) -> None:
    code = (ROOT / "examples" / "exact_resume.py").read_text()
    assert code == generate.python_blocks(README)[1]
    (tmp_path / "train.py").write_text(code)

    prove = [sys.executable, "-m", "gradkeeper", "prove-resume", "--kills", "1", "--"]

    done = subprocess.run(
        [*prove, sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "exact, the weights are equal bit for bit" in done.stdout


def test_the_flag_one_line_earlier_is_right() -> None:
    lines = generate.python_blocks(README)[0].splitlines(keepends=True)
    flag = next(number for number, line in enumerate(lines) if "require_backward" in line)
    lines[flag - 1 : flag + 1] = lines[flag], lines[flag - 1]

    assert check_source("".join(lines), "train.py", ALL).findings == []


def test_the_loss_of_the_wrong_loop_falls(tmp_path: Path) -> None:
    """Of items drawn from a normal distribution, it is the sum of the squared weights."""
    code = generate.python_blocks(README)[0]
    size = "print(sum(float(p.square().sum()) for p in model.parameters()), flush=True)\n"
    begin = code.index("for window in")
    end = code.index("dist.destroy_process_group()")
    (tmp_path / "train.py").write_text(code[:begin] + size + code[begin:end] + size + code[end:])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]

    done = subprocess.run(
        [sys.executable, *launcher, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    before, after = map(float, done.stdout.split())
    assert after < before


def test_output_blocks_are_what_the_commands_print() -> None:
    assert generate.OUTPUT.search(README)
    assert generate.with_outputs(README) == README, "run scripts/docs"


def test_an_output_is_that_of_the_script_which_its_command_names() -> None:
    page = "```python\nimport torch\n```\n\n<!-- output of: gradkeeper check a/one.py -->\n"
    page += "```text\nnothing found: no training loop was seen in 1 file\n```\n"

    assert generate.with_outputs(page) == page


def test_an_output_that_is_out_of_date_is_noticed() -> None:
    block = "```python\nimport torch\n```\n\n<!-- output of: gradkeeper check train.py -->\n"
    stale = f"{block}```text\nsomething else\n```\n"

    renewed = generate.with_outputs(stale)

    assert renewed == f"{block}```text\nnothing found: no training loop was seen in 1 file\n```\n"


def test_how_often_ranks_were_compared_is_no_difference() -> None:
    told = "W1117 10:00:00 torch is busy\nranks differ (5 times between steps 1 and 8)\n"

    assert generate.steady(told) == generate.steady("ranks differ (3 times)\n")
    assert generate.steady(told) != generate.steady("ranks agree (5 times)\n")


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
    if program == "pip":
        assert rest[0] == "install"  # test_package.py: what it names is there
        return
    if program == "uvx":
        program, rest = "gradkeeper", rest[rest.index("gradkeeper") + 1 :]
    if program == "gradkeeper":
        build_parser(rest).parse_args(rest)  # ends the test where it does not understand
        return

    module = Path(*program.split(".")).with_suffix(".py")
    assert (ROOT / program).exists() or (ROOT / module).exists()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists()
