"""What a program runs of the modules it imports: what is asked for, and no more."""

import ast
import json
from pathlib import Path

import pytest

from gradkeeper.lint import program as grouping
from gradkeeper.lint.check import check_files
from gradkeeper.lint.explore import roots
from gradkeeper.lint.files import find
from gradkeeper.lint.imports import FEW, Project
from gradkeeper.lint.program import programs, sketch
from gradkeeper.lint.run import Program
from gradkeeper.rules import ALL

MAIN = """\
import torch
from {module} import {name}

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    {call}(model, optimizer, x)
"""
STEP = """\
def train_step(model, optimizer, x):
    {zero}
    model(x).mean().backward()
    optimizer.step()
"""
CLEARED, KEPT = STEP.format(zero="optimizer.zero_grad()"), STEP.format(zero="pass")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return list(find(["."]))


def found(files: dict[str, str]) -> list[tuple[str, str]]:
    results = check_files(write(files), fixes=False)
    return [(path, one.rule) for path, checked in results for one in checked.findings]


def operations(files: dict[str, str]) -> int:
    write(files)
    program = Program(Project({"main.py": ast.parse(Path("main.py").read_text())}), tuple(ALL))
    for _ in roots(program):
        pass
    return program.operations


def main_with(module: str, name: str, call: str = "") -> str:
    return MAIN.format(module=module, name=name, call=call or name)


def test_lines_that_have_nothing_to_do_with_a_name_are_not_run() -> None:
    others = "import os\n" + "".join(f"place{n} = os.path.join('a', 'b')\n" for n in range(200))
    main = main_with("steps", "train_step")

    bare = operations({"main.py": main, "steps.py": CLEARED})
    along = operations({"main.py": main, "steps.py": others + CLEARED})

    assert along == bare


def test_lines_that_a_name_needs_are_run() -> None:
    needed = "rates = []\n" + "rates.append(0.1)\n" * 20
    uses = CLEARED.replace("optimizer.zero_grad()", "optimizer.zero_grad(rates[0])")
    main = main_with("steps", "train_step")

    bare = operations({"main.py": main, "steps.py": CLEARED})
    along = operations({"main.py": main, "steps.py": needed + uses})

    assert along > bare + 20


@pytest.mark.parametrize(
    "module",
    [
        "{step}\nTABLE = {{}}\nTABLE['plain'] = train_step\n",
        "{step}\nTABLE = {{}}\nTABLE.update(plain=train_step)\n",
        "{step}\nif True:\n    TABLE = dict(plain=train_step)\n",
        "TABLE = dict(plain=lambda *given: train_step(*given))\n{step}",
    ],
)
@pytest.mark.parametrize(("step", "expected"), [(KEPT, ["GK101"]), (CLEARED, [])])
def test_what_is_put_into_a_table_is_found_there(
    module: str, step: str, expected: list[str]
) -> None:
    files = {
        "main.py": main_with("steps", "TABLE", "TABLE['plain']"),
        "steps.py": module.format(step=step),
    }

    assert [rule for _, rule in found(files)] == expected


@pytest.mark.parametrize(
    "steps",
    [
        {"steps.py": "from inner import *\n", "inner.py": "{step}"},
        {"steps.py": "from inner import train_step\n", "inner.py": "{step}"},
        {"steps.py": "from inner import once as train_step\n", "inner.py": "{step}once=train_step"},
        {"steps.py": "import inner\ntrain_step = inner.train_step\n", "inner.py": "{step}"},
        {"steps.py": "from inner import train_step\n", "inner.py": "from steps import x\n{step}"},
        {"steps/__init__.py": "from .inner import train_step\n", "steps/inner.py": "{step}"},
    ],
)
@pytest.mark.parametrize(("step", "expected"), [(KEPT, ["GK101"]), (CLEARED, [])])
def test_a_name_is_found_through_modules_that_hand_it_on(
    steps: dict[str, str], step: str, expected: list[str]
) -> None:
    hands_on = "import torch.optim\n"
    files = {name: hands_on + text.replace("{step}", step) for name, text in steps.items()}

    assert [rule for _, rule in found({"main.py": main_with("steps", "train_step"), **files})] == (
        expected
    )


def test_of_a_large_project_what_may_matter_is_read_along() -> None:
    names = [f"part{n}" for n in range(FEW + 5)]
    imports = "".join(f"import {name}\n" for name in names)
    parts = {f"{name}.py": "def nothing(): ...\n" for name in names}
    main = imports + main_with("steps", "train_step")

    assert found({"main.py": main, "steps.py": KEPT, **parts}) == [("steps.py", "GK101")]

    project = Project({"main.py": ast.parse(main)})
    read = {Path(path).name for path in project.trees}
    assert read == {"main.py", "steps.py"}


def test_of_a_large_project_the_packages_that_hand_on_modules_are_read_along() -> None:
    names = [f"part{n}" for n in range(FEW + 5)]
    imports = "".join(f"import {name}\n" for name in names)
    parts = {f"{name}.py": "def nothing(): ...\n" for name in names}
    packages = {"lib/__init__.py": "", "lib/way/__init__.py": "from lib.way import steps\n"}
    main = main_with("lib", "way").replace("way(", "way.steps.train_step(")

    for text, expected in ((KEPT, [("lib/way/steps.py", "GK101")]), (CLEARED, [])):
        files = {"main.py": imports + main, "lib/way/steps.py": text, **packages, **parts}
        assert found(files) == expected


def test_a_small_project_is_read_whole() -> None:
    write({"sizes.py": "size = 4\n", "steps.py": CLEARED})

    project = Project({"main.py": ast.parse("import sizes\n" + main_with("steps", "train_step"))})

    assert {Path(path).name for path in project.trees} == {"main.py", "steps.py", "sizes.py"}


def test_a_docstring_trains_nothing() -> None:
    told = '"""Call loss.backward() and then optimizer.step()."""\nimport torch\n'

    assert not Project({"told.py": ast.parse(told)}).may_train
    assert Project({"done.py": ast.parse(told + CLEARED)}).may_train


def test_in_a_large_project_the_nearest_callers_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    callers = {
        f"far{n}.py": f"import {'near' if n == 0 else f'far{n - 1}'}\nprint()\n" for n in (0, 1)
    }
    paths = write({"steps.py": CLEARED, "near.py": "import steps\nprint()\n", **callers})

    def together() -> list[set[str]]:
        seen = [sketch(path, Path(path).read_bytes()) for path in paths]
        return [set(one.paths) for one in programs([one for one in seen if one is not None])]

    assert together() == [{"steps.py", "near.py", "far0.py", "far1.py"}]
    monkeypatch.setattr(grouping, "MOST_TOGETHER", 2)
    assert together() == [{"steps.py", "near.py"}]


def test_projects_side_by_side_are_as_large_as_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "MOST_TOGETHER", 2)
    projects = {
        f"{folder}/{name}": text
        for folder in ("first", "second", "third")
        for name, text in {"main.py": main_with("steps", "train_step"), "steps.py": KEPT}.items()
    }

    assert sorted(found(projects)) == [
        (f"{folder}/steps.py", "GK101") for folder in ("first", "second", "third")
    ]


@pytest.mark.parametrize("step", [CLEARED, KEPT])
def test_a_name_that_one_of_two_modules_gives_ends_no_check(step: str) -> None:
    chosen = """\
import os
if os.environ.get("BACKEND", "torch") == "torch":
    from torch_steps import train_step
else:
    from other_steps import train_step
"""
    whole = main_with("torch_steps", "train_step").replace(
        "from torch_steps import train_step\n", chosen
    )

    told = found({"main.py": whole, "torch_steps.py": step, "other_steps.py": step})

    assert "GK001" not in {rule for _, rule in told}
    assert ("torch_steps.py", "GK101") in told or step == CLEARED


@pytest.mark.parametrize("package", ["with a file of its own", "without one"])
@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from parts import steps", "steps.train_step"),
        ("from parts.steps import train_step", "train_step"),
        ("import parts.steps", "parts.steps.train_step"),
        ("import parts.steps as s", "s.train_step"),
        ("import parts.inner.deep", "parts.inner.deep.train_step"),
    ],
)
def test_a_package_is_a_folder_with_modules(here: Path, line: str, call: str, package: str) -> None:
    main = MAIN.replace("from {module} import {name}", line).format(call=call)
    for step, expected in ((CLEARED, []), (KEPT, ["GK101"])):
        inner = {"parts/steps.py": step, "parts/inner/deep.py": step}
        if package == "with a file of its own":
            inner |= {"parts/__init__.py": "", "parts/inner/__init__.py": ""}
        paths = write({"main.py": main, **inner})
        found = [one.rule for _, checked in check_files(paths) for one in checked.findings]

        assert found == expected


@pytest.mark.parametrize(("cleared", "expected"), [("model", []), ("x", ["GK101"])])
def test_a_notebook_sees_the_modules_beside_it(cleared: str, expected: list[str]) -> None:
    write({"steps.py": f"def clear(model, x):\n    {cleared}.zero_grad()\n"})
    cell = """\
import torch
from steps import clear

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    clear(model, torch.nn.Linear(4, 1))
    model(x).mean().backward()
    optimizer.step()
"""
    code = {"cell_type": "code", "source": cell, "outputs": [], "metadata": {}}
    Path("train.ipynb").write_text(json.dumps({"cells": [code], "nbformat": 4, "metadata": {}}))

    assert [
        one.rule for _, checked in check_files(["train.ipynb"]) for one in checked.findings
    ] == expected


@pytest.mark.parametrize(("step", "expected"), [(CLEARED, []), (KEPT, [("train.py", "GK101")])])
def test_a_script_that_another_file_takes_something_from_is_still_a_script(
    step: str, expected: list[tuple[str, str]]
) -> None:
    script = MAIN.format(module="math", name="pi", call="train_step")
    other = "from train import model\n\nmodel.eval()\nprint(model)\n"

    assert found({"train.py": step + script, "evaluate.py": other}) == expected


def test_what_macos_leaves_beside_a_copied_file_is_no_source(here: Path) -> None:
    (here / "._train.py").write_bytes(b"\x00\x05\x16\x07")

    assert found({"train.py": "pass\n"}) == []
    assert list(find(["._train.py"])) == ["._train.py"]
