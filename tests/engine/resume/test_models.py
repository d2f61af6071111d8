"""Models and optimizers as people have them, killed and resumed bit for bit; and what is told of a
model of which only a part trains.
"""

import shutil
from pathlib import Path

import pytest

from tests.engine.resume.model_kinds import BY_A_COMPILER, KINDS, OF_OTHERS, OF_TORCH
from tests.engine.resume.test_killed import lives


def killed(folder: Path, *kinds: str) -> dict[str, int]:
    """How many lives each took; -1 if it did not end with the bits of one that was not killed."""
    cases = [("kinds", {"kind": kind}, "steps:12", 0) for kind in kinds]
    return dict(zip(kinds, lives(folder, cases), strict=True))


def test_what_torch_has_is_killed_and_resumed_bit_for_bit(tmp_path: Path) -> None:
    found = killed(tmp_path, *OF_TORCH)

    assert {kind for kind, number in found.items() if number < 2} == set()


def test_an_average_that_is_not_tracked_is_lost(tmp_path: Path) -> None:
    cases = [("kinds", {"kind": "averaged", "track": False}, "steps:12", 0)]

    assert lives(tmp_path, cases) == [-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_OTHERS)
def test_what_others_have_is_killed_and_resumed_bit_for_bit(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")  # torchao compiles its step: minutes here

    assert killed(tmp_path, kind)[kind] >= 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
@pytest.mark.parametrize("kind", BY_A_COMPILER)
def test_what_is_compiled_here_is_killed_and_resumed_bit_for_bit(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "kernels"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(kernels))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that a kill leaves

    assert killed(tmp_path, kind)[kind] >= 2

    assert list(kernels.rglob("*.so"))  # else nothing was compiled


def test_every_kind_is_killed_somewhere() -> None:
    assert {*OF_TORCH, *OF_OTHERS, *BY_A_COMPILER} == KINDS.keys()
