"""The rehearsal's second design, which grows beside the first until it is better throughout.

What it must get right by then is what the first one does; where it falls short is listed here, and
the list only shrinks.
"""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from gradkeeper.lint.program import Checked
from gradkeeper.lint.second_design import rehearse_files
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.rule import Block, Rule
from gradkeeper.rules import ALL

CASES = Path(__file__).parents[1] / "cases"
SOURCE = Path(__file__).resolve().parents[2] / "src" / "gradkeeper" / "lint"
NOT_YET = {
    "embeddings_never_step": "its loss was meant for both optimizers, which nothing tells",
}


def check(files: dict[str, str]) -> dict[str, Checked]:
    trees = {path: ast.parse(text, path) for path, text in files.items()}
    return rehearse_files(trees, tuple(ALL))


def spoken(checked: Checked) -> list[Finding]:
    return [one for one in checked.findings if one.severity is not Severity.INFO]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path,
            id=f"{path.parent.name}-{path.stem}",
            marks=pytest.mark.xfail(reason=NOT_YET[path.stem], strict=True)
            if path.stem in NOT_YET
            else (),
        )
        for path in sorted(CASES.glob("*/*.py"))
        if path.with_suffix(".json").exists()
    ],
)
def test_a_labelled_script_gets_the_findings_of_its_label_and_no_others(script: Path) -> None:
    labels: dict[str, Any] = json.loads(script.with_suffix(".json").read_text())

    told = spoken(check({str(script): script.read_text()})[str(script)])

    for fault in labels["expect"]:
        if fault["static"]:
            assert any(
                one.rule == fault["rule"] and one.site.line in fault["lines"] for one in told
            )
    allowed = {fault["rule"] for fault in labels["expect"]} | set(labels["also_ok"])
    assert [one for one in told if one.rule not in allowed] == []


MAIN = """
import torch
from torch import nn
from engine import train

model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
{extra}
train(model, optimizer, [torch.randn(8, 4) for _ in range(6)])
"""
ENGINE = """
def train(model, optimizer, loader):
    for x in loader:
        model(x).square().mean().backward()
        optimizer.step()
"""


def test_a_fault_of_two_files_stands_in_the_file_of_its_line() -> None:
    found = check({"main.py": MAIN.format(extra=""), "engine.py": ENGINE})

    assert not spoken(found["main.py"])
    assert [(one.rule, one.site.line) for one in spoken(found["engine.py"])] == [("GK101", 5)]


def test_what_the_callers_file_makes_right_is_right() -> None:
    hook = "optimizer.register_step_post_hook(lambda *_: optimizer.zero_grad())"

    found = check({"main.py": MAIN.format(extra=hook), "engine.py": ENGINE})

    assert not spoken(found["main.py"])
    assert not spoken(found["engine.py"])


OPTION = """
import argparse
import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
for step in range(100):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    if args.amp:
        scaler.scale(loss).backward()
    else:
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if args.amp:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
"""


def test_what_holds_under_one_setting_is_told_with_it() -> None:
    (finding,) = spoken(check({"train.py": OPTION})["train.py"])

    assert (finding.rule, finding.site.line) == ("GK301", 17)
    assert finding.certain
    assert finding.when == "args.amp is true"


def test_what_chance_may_avert_is_only_possible() -> None:
    source = OPTION.replace("optimizer.zero_grad()", "if loss.item() > 1: optimizer.zero_grad()")

    found = check({"train.py": source})["train.py"].findings

    stale = [one for one in found if one.rule == "GK101"]
    assert stale
    assert not any(one.certain for one in stale)


def imports_of(path: Path) -> set[str]:
    """The modules of lint that a file imports, wherever the import stands, types aside."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    typing = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for one in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in typing and node.module:
            if node.module == "gradkeeper.lint.libraries":
                found |= {f"{node.module}.{one.name}" for one in node.names}
            elif node.module.startswith("gradkeeper.lint"):
                found.add(node.module)
    return found


def test_imports_inside_the_second_design_go_round_in_no_circle() -> None:
    files = [*SOURCE.glob("interpreter/*.py"), *SOURCE.glob("libraries/*.py")]
    files += [SOURCE / f"{name}.py" for name in ("explore", "certainty", "guesses", "imports")]
    graph = {
        ".".join(("gradkeeper", "lint", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in files
        if path.stem != "__init__"
    }
    waiting = {name: imports_of(path) & graph.keys() for name, path in graph.items()}

    while ready := [name for name, needs in waiting.items() if not needs]:
        for name in ready:
            del waiting[name]
        for needs in waiting.values():
            needs.difference_update(ready)

    assert not waiting


def test_the_interpreter_knows_no_library() -> None:
    for path in SOURCE.glob("interpreter/*.py"):
        assert not any(".libraries" in name for name in imports_of(path))


@pytest.mark.parametrize(
    ("rule", "block"),
    [
        pytest.param(rule, block, id=f"{rule.code}-{block.kind}")
        for rule in ALL
        for block in rule.blocks
        if block.side != "runtime" and rule.code != "GK000"
    ],
)
def test_a_rules_example_gets_the_verdict_that_its_document_claims(
    rule: Rule, block: Block
) -> None:
    found = check({"block.py": block.code})["block.py"].findings

    own = [one.site.line for one in found if one.rule == rule.code]
    others = [one for one in found if one.rule != rule.code and one.severity != Severity.INFO]
    assert own == (block.marked if block.kind == "bad" else [])
    assert not others
