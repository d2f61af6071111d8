"""Notebooks: findings name the cell, and magics are no syntax errors."""

import json

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


def test_what_is_no_notebook_is_unparsable() -> None:
    (finding,) = check_notebook(b"{}", "a.ipynb").findings

    assert finding.rule == "GK000"
