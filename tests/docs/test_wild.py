"""docs/wild.md can be compared with checkouts; what the linter does not say is noticed."""

import re
import subprocess
from pathlib import Path

import pytest

from bench import wild
from gradkeeper.rules import ALL
from tests.cli.test_also import STALE

MENDED = f"{STALE}    optimizer.zero_grad()\n"


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    checkout = tmp_path / "checkouts" / "someone+loops"
    checkout.mkdir(parents=True)
    git(checkout, "init", "-q")
    (checkout / "wrong.py").write_text(STALE)
    (checkout / "right.py").write_text(MENDED)
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "loops")
    commit = git(checkout, "rev-parse", "HEAD")[:12]
    monkeypatch.setattr(wild, "PAGE", tmp_path / "wild.md")
    row = "| someone/loops | {} | {} | GK101 | why |\n"
    rows = [row.format(commit, "wrong.py:7"), row.format("0" * 12, "wrong.py:7")]
    rows.append("| nobody/nothing | 0123456789ab | a.py:1, b.ipynb:cell 2:1 | GK101 | why |\n")
    (tmp_path / "wild.md").write_text("".join(rows))
    (tmp_path / "more").write_text(row.format(commit, "right.py:7"))
    return tmp_path / "checkouts"


def test_what_the_linter_says_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wild.main([str(folder)]) == 0

    said = capsys.readouterr().out
    assert said.endswith("1 told, 1 at another commit, 2 not here\n")
    assert "nobody/nothing b.ipynb:cell 2:1 GK101: not here\n" in said


def test_what_it_does_not_say_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wild.PAGE.write_text(wild.PAGE.read_text() + (folder.parent / "more").read_text())

    assert wild.main([str(folder)]) == 1
    assert "someone/loops right.py:7 GK101: NOT TOLD\n" in capsys.readouterr().out


EARLY = """\
def tick(scheduler):
    scheduler.step()
"""
CALLER = """\
import torch
from early import tick

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
for epoch in range(3):
    tick(scheduler)
    for x in torch.randn(6, 8, 4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""


def test_what_shows_only_with_its_callers_is_told(folder: Path) -> None:
    checkout = folder / "someone+loops"
    (checkout / "early.py").write_text(EARLY)
    (checkout / "main.py").write_text(CALLER)
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "an early tick")
    commit = git(checkout, "rev-parse", "HEAD")[:12]
    wild.PAGE.write_text(f"| someone/loops | {commit} | early.py:2 | GK205 | why |\n")

    assert wild.main([str(folder)]) == 0


PAGE = (Path(__file__).parents[2] / "docs" / "wild.md").read_text()


def test_every_row_of_the_page_is_understood() -> None:
    rows = re.findall(r"^\| (?!repository \|).*\|$", PAGE, re.M)

    found = list(wild.claims(PAGE))

    assert len(wild.ROW.findall(PAGE)) == len([row for row in rows if "---" not in row]) > 10
    assert {one.rule for one in found} <= {rule.code for rule in ALL}
    assert "None was reported upstream by us" in PAGE


def test_the_page_counts_its_repositories_and_places() -> None:
    found = list(wild.claims(PAGE))

    repositories = len({one.repository for one in found})
    assert f"{repositories} public repositories, at {len(found)} places," in PAGE


def test_a_commit_leads_to_its_own_tree() -> None:
    links = re.findall(r"\| (\S+) \| \[(\w+)\]\((\S+)\) \|", PAGE)

    assert len(links) == len(wild.ROW.findall(PAGE))
    assert all(to == f"https://github.com/{name}/tree/{commit}" for name, commit, to in links)


def test_a_row_stands_below_the_heading_of_its_rule() -> None:
    for heading, body in re.findall(r"^## .*\((GK\d+)\)$(.*?)(?=^## |\Z)", PAGE, re.M | re.S):
        assert {one.rule for one in wild.claims(body)} == {heading}
