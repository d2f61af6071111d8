"""Each example runs in seconds and learns what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples import characters, five_lines, gan, half_precision, lbfgs, tbptt

FOLDER = Path(__file__).parents[2] / "examples"
RUN_BESIDE = {"with_accelerate", "with_ignite", "with_fabric"}
RUN_IN_README = {"exchanged_too_early", "exact_resume"}
RUN_HERE = {
    "five_lines",
    "characters",
    "gan",
    "tbptt",
    "lbfgs",
    "half_precision",
    "characters_ranks",
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == RUN_HERE | RUN_BESIDE | RUN_IN_README


def test_the_windowed_loop_equals_the_five_lines(capsys: pytest.CaptureFixture[str]) -> None:
    five_lines.main()

    assert capsys.readouterr().out == "bitwise equal\n"


def test_the_five_lines_can_differ() -> None:
    pairs = zip(
        five_lines.windowed(1).parameters(), five_lines.windowed(2).parameters(), strict=True
    )
    assert not all(torch.equal(one, other) for one, other in pairs)


def test_the_transformer_learns_to_read() -> None:
    losses = characters.main(epochs=2)

    assert losses[-1] < losses[0] - 1


def test_the_transformer_reads_on_where_it_was_stopped(tmp_path: Path) -> None:
    characters.main(epochs=1, folder=str(tmp_path))

    losses = characters.main(epochs=1, folder=str(tmp_path))

    assert losses == characters.main(epochs=1)


def test_the_generator_finds_the_ring() -> None:
    radius = gan.main()

    assert radius == pytest.approx(2, abs=0.6)


def test_the_rnn_learns_to_forecast() -> None:
    losses = tbptt.main(epochs=5)

    assert losses[-1] < losses[0] / 20


def test_lbfgs_fits_the_sine() -> None:
    losses = lbfgs.main()

    assert losses[-1] < 1e-3


def test_half_precision_skips_until_its_scale_fits() -> None:
    losses, skipped = half_precision.main()

    assert 1 <= skipped <= 8
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("option", [[], pytest.param(["--fsdp"], marks=pytest.mark.slow)])
def test_two_ranks_learn_to_read(option: list[str]) -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*run, "-m", "examples.characters_ranks", *option]

    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, timeout=180)

    assert done.returncode == 0, done.stderr
    told = re.fullmatch(r"32 steps, loss (.*) -> (.*)\n", done.stdout)
    assert told is not None
    assert float(told[2]) < float(told[1]) - 1
