"""Notebooks: findings name the cell, and magics are no syntax errors."""

import json

import pytest

from gradkeeper.lint.edits import apply
from gradkeeper.lint.runner import check_notebook
from tests.lint.linting import HEAD


def notebook(*cells: str) -> bytes:
    made = [{"cell_type": "code", "source": one.splitlines(keepends=True)} for one in cells]
    made.insert(1, {"cell_type": "markdown", "source": ["# Training"]})
    return json.dumps({"cells": made, "nbformat": 4}).encode()


def test_a_finding_names_its_cell_and_the_line_in_it() -> None:
    raw = notebook(HEAD, "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n")

    (finding,) = check_notebook(raw, "a.ipynb").findings

    assert (finding.rule, finding.cell, finding.site.line) == ("GK101", 3, 3)


def test_magics_and_shell_lines_are_tolerated() -> None:
    raw = notebook(
        "%matplotlib inline\n!pip install x\nout = !nvidia-smi\n" + HEAD,
        "%%bash\nfor f in *; do echo $f; done\n",
        "optimizer.step()\nmodel?\n",
    )

    assert check_notebook(raw, "a.ipynb").findings == []


def test_text_that_is_formatted_on_a_line_of_its_own_is_no_magic() -> None:
    cell = """\
for x in loader:
    model(x).mean().backward()
    optimizer.step()
    print("batch %d of %d"
          %(1, 2))
    print("%d"
          % 1, flush=True)
    name = "%d" \\
        % 2
"""

    (finding,) = check_notebook(notebook(HEAD, cell), "a.ipynb").findings

    assert (finding.rule, finding.cell, finding.site.line) == ("GK101", 3, 3)


def test_a_shell_command_may_go_on_below() -> None:
    cell = "!python export.py --size 640 \\\n      --topk 100 \\\n   --max 640 # pixels\nx = 1\n"

    assert check_notebook(notebook(HEAD, cell), "a.ipynb").findings == []


def test_what_is_no_notebook_is_unparsable() -> None:
    (finding,) = check_notebook(b"{}", "a.ipynb").findings

    assert finding.rule == "GK000"


LOOP = "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()  # 😀 \\ok"
MOVED = (
    "for x in loader:\n    loss = model(x).mean()\n    loss.backward()\n"
    "    optimizer.zero_grad()  # why\n    optimizer.step()\n"
)
STYLES = {"indented": {"indent": 1}, "compact": {}, "plain text": {"ensure_ascii": False}}


def sources(raw: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(raw)["cells"]]


def fixed(raw: bytes) -> str:
    new, done = apply(raw.decode(), check_notebook(raw, "a.ipynb").findings)
    assert done
    return new


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("end", ["", "\n", "\nprint(1)\n"])
def test_a_fix_changes_one_cell_and_no_other_byte(style: str, end: str) -> None:
    made = json.loads(notebook(HEAD, LOOP + end, "print('é\\u2028')"))
    old = json.dumps(made, **STYLES[style])  # type: ignore[arg-type]

    new = fixed(old.encode())

    lines = (LOOP + end).split("\n")
    lines.insert(3, "    optimizer.zero_grad()")
    before, after = sources(old), sources(new)
    assert after == [*before[:2], "\n".join(lines), *before[3:]]
    made["cells"][2]["source"] = after[2].splitlines(keepends=True)
    assert json.dumps(made, **STYLES[style]) == new  # type: ignore[arg-type]
    assert check_notebook(new.encode(), "a.ipynb").findings == []


def test_a_cell_that_is_one_string_stays_one() -> None:
    made = {"cells": [{"cell_type": "code", "source": HEAD + LOOP}], "nbformat": 4}

    new = json.loads(fixed(json.dumps(made).encode()))

    assert new["cells"][0]["source"] == HEAD + LOOP + "\n    optimizer.zero_grad()"


def test_a_line_that_moves_takes_its_comment_along() -> None:
    new = sources(fixed(notebook(HEAD, MOVED)))[2]

    assert new.endswith("    optimizer.step()\n    optimizer.zero_grad()  # why\n")
    assert new.count("zero_grad") == 1
