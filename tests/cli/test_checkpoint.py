import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.checkpoint import Store
from gradkeeper.cli import main


def state(step: int) -> dict[str, Any]:
    return {"model": {"w": torch.zeros(2, 3), "b": torch.full((3,), float(step))}, "step": step}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two checkpoints."""
    store = Store(tmp_path / "run")
    for step in (10, 20):
        store.save(state(step), facts={"step": step, "window": {"read": 2, "size": 4}})
    return tmp_path / "run"


def damage(folder: Path, name: str) -> None:
    path = folder / name / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_show_lists_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(folder)]) == 0

    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("save-000001  20")
    assert second.endswith("step 20, window read 2, size 4")


def test_show_tells_what_is_in_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", str(folder / "save-000002")]) == 0

    out = capsys.readouterr().out
    assert out.startswith("save-000002  saved 20")
    assert " in 2 tensors\n" in out
    assert f"torch {torch.__version__}" in out
    assert "  step: 20\n  window: read 2, size 4\n  model: 2 tensors, 9 elements\n" in out


def test_show_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys\n"
        "from gradkeeper.cli import main\n"
        f"main(['checkpoint', 'show', {str(folder)!r}])\n"
        f"main(['checkpoint', 'verify', {str(folder)!r}])\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr


def test_good_checkpoints_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", str(folder)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "good     save-000001",
        "good     save-000002",
    ]


def test_a_damaged_one_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder, "save-000002")

    assert main(["checkpoint", "verify", str(folder)]) == 1
    assert main(["checkpoint", "verify", str(folder / "save-000001")]) == 0
    assert main(["checkpoint", "verify", str(folder / "save-000002")]) == 1

    out = capsys.readouterr().out
    assert "damaged  " in out
    assert "save-000002: tensors.safetensors does not match its checksum" in out


def test_a_renamed_one_verifies(folder: Path) -> None:
    shutil.copytree(folder / "save-000001", folder.parent / "best")

    assert main(["checkpoint", "verify", str(folder.parent / "best")]) == 0


def test_equal_checkpoints_do_not_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(folder / "save-000001", folder.parent / "copy")

    assert (
        main(["checkpoint", "diff", str(folder / "save-000001"), str(folder.parent / "copy")]) == 0
    )

    assert capsys.readouterr().out == "equal, bit for bit\n"


def test_diff_tells_what_differs_by_how_much(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (str(folder / f"save-00000{number}") for number in (1, 2))

    assert main(["checkpoint", "diff", one, other]) == 1

    assert capsys.readouterr().out.splitlines() == [
        "state['model']['b']: 3 of 3 elements differ, by at most 10",
        "state['step']: 10 against 20",
        "2 differences",
    ]


def test_diff_of_a_damaged_one_compares_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder, "save-000002")

    assert main(["checkpoint", "diff", str(folder / "save-000001"), str(folder)]) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert "damaged: " in told.err


@pytest.mark.parametrize("action", ["show", "verify"])
def test_what_is_no_checkpoint_exits_with_2(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "manifest.json").write_text("{}")
    file = tmp_path / "file"
    file.write_text("hello")
    urls = [tmp_path / "nowhere", tmp_path, foreign, file, "nosuch://scheme", "memory://nothing"]

    for url in urls:
        assert main(["checkpoint", action, str(url)]) == 2, url

    assert "there is no checkpoint" in capsys.readouterr().err


def test_an_unknown_action_exits_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["checkpoint", "burn"])

    assert ended.value.code == 2
