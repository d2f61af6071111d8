"""The server with a real editor: Neovim, without a screen."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.test_server import CLEAN, STALE

pytest.importorskip("pygls", reason="the extra lsp is not installed")

SCRIPT = Path(__file__).with_name("neovim.lua")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not here (Debian: neovim)")
def test_neovim_shows_a_finding_explains_it_and_takes_the_fix(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STALE)
    report = tmp_path / "report.json"

    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {SCRIPT}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "TRAIN": "train.py",
            "REPORT": str(report),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert report.exists(), done.stderr
    told = json.loads(report.read_text())
    assert "error" not in told, told
    assert (told["found"]["code"], told["found"]["line"]) == ("GK101", 7)
    assert told["found"]["message"].startswith("step() applies the gradient of line 6 a second")
    assert told["hover"].startswith("# GK101 stale-gradient [error]")
    assert told["typed"] is True, "what silenced it was not saved"
    assert told["actions"][0] == "GK101: optimizer.zero_grad() right after the step"
    assert told["mended"] == CLEAN.rstrip("\n")
    assert (tmp_path / "train.py").read_text() == STALE
