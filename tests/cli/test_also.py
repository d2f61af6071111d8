"""`check --also FORMAT=FILE`: one check, told in several formats."""

import json
from pathlib import Path

import pytest

from gradkeeper.cli import main

STALE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""


def test_findings_are_written_in_each_format_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(STALE)

    code = main(["check", "train.py", "--also", "sarif=a.sarif", "--also", "json=b=c.json"])

    assert code == 1
    assert capsys.readouterr().out.startswith("train.py:7:5  GK101 stale-gradient")
    (result,) = json.loads(Path("a.sarif").read_text())["runs"][0]["results"]
    (finding,) = json.loads(Path("b=c.json").read_text())["findings"]
    assert result["ruleId"] == finding["rule"] == "GK101"
    assert result["fixes"]
    assert finding["fix"]


@pytest.mark.parametrize("wrong", ["sarif", "sarif=", "yaml=found.yaml"])
def test_what_names_no_format_and_file_is_refused(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", ".", "--also", wrong])

    assert "FORMAT=FILE, of text, json, sarif, github" in capsys.readouterr().err


def test_standard_output_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", ".", "--also", "json=-"])

    assert "'json=-': --format json writes to standard output" in capsys.readouterr().err
