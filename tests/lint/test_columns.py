"""A column counts letters, whatever stands before it and however a file is encoded."""

from pathlib import Path

import pytest

from gradkeeper.lint.check import check_bytes
from gradkeeper.lint.notebook import read
from tests.integrations.test_hooks import notebook

LINE = "    optimizer.step()"
STALE = f"""\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
{LINE}
"""
WIDE = STALE.replace(LINE, "    'größer'; optimizer.step()")
COLUMN = 15


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_letters_are_counted_and_not_their_bytes(tmp_path: Path, encoding: str) -> None:
    text = f"# -*- coding: {encoding} -*-\n{WIDE}".encode(encoding)

    (found,) = check_bytes(text, str(tmp_path / "train.py")).findings

    assert (found.line, found.column) == (8, COLUMN)
    assert [one.site.column for one in found.because] == [5, COLUMN]


def test_in_a_notebook_too() -> None:
    assert read(notebook(WIDE).encode())

    (found,) = check_bytes(notebook(WIDE).encode(), "train.ipynb").findings

    assert (found.cell, found.line, found.column) == (1, 7, COLUMN)


def test_a_line_of_plain_letters_has_the_column_that_python_says() -> None:
    (found,) = check_bytes(STALE.encode(), "train.py").findings

    assert found.column == 5
