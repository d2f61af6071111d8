"""Notebooks: findings name the cell, and magics are no syntax errors."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from gradkeeper.cli import main
from gradkeeper.lint.check import check_notebook
from gradkeeper.lint.fixes import apply
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


@pytest.mark.parametrize("magic", ["%time", "%timeit -n 1 -r 1", "%prun"])
def test_a_statement_that_a_magic_times_is_run(magic: str) -> None:
    train = "def train(network):\n    for x in loader:\n        {}\n"
    train += "        network(x).mean().backward()\n        optimizer.step()\n"

    (finding,) = check_notebook(
        notebook(HEAD + train.format("pass"), f"{magic} train(model)"), "a.ipynb"
    ).findings
    right = check_notebook(
        notebook(HEAD + train.format("optimizer.zero_grad()"), f"{magic} train(model)"), "a.ipynb"
    )

    assert (finding.rule, finding.cell) == ("GK101", 1)
    assert right.findings == []


def test_a_statement_that_a_magic_times_keeps_its_column() -> None:
    cell = "for x in loader:\n    model(x).mean().backward()\n    %time optimizer.step()\n"

    (finding,) = check_notebook(notebook(HEAD, cell), "a.ipynb").findings

    assert (finding.site.line, finding.site.column) == (3, 11)


def test_a_magic_that_times_a_loop_is_tolerated() -> None:
    assert check_notebook(notebook("%time for x in y: pass", HEAD), "a.ipynb").findings == []


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


BELOW = "for x in loader:\n    loss = step(x)\n    optimizer.step()\n"
ABOVE = "def step(x):\n    loss = model(x).mean()\n    loss.backward()\n    return loss\n"


def shown(raw: bytes, *options: str) -> tuple[int, str]:
    """What `check` prints of a notebook."""
    Path("a.ipynb").write_bytes(raw)
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["check", "a.ipynb", *options])
    return code, out.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
def test_all_lines_are_counted_in_their_cells_and_the_cells_own_line_is_shown() -> None:
    raw = notebook("import torch\n", HEAD, ABOVE, BELOW)

    code, text = shown(raw)

    assert code == 1
    place, excerpt, pointer, account = text.splitlines()[:4]
    assert place == "a.ipynb:cell 5:3:5  GK101 stale-gradient"
    assert excerpt == "    3 |     optimizer.step()"
    assert "cell 4 line 3" in pointer
    assert "cell 4 line 3" in account
    assert "line 14" not in text


@pytest.mark.usefixtures("here")
def test_every_format_names_cells_and_the_lines_in_them() -> None:
    raw = notebook("import torch\n", HEAD, ABOVE, BELOW)

    (record,) = json.loads(shown(raw, "--format", "json")[1])["findings"]
    (result,) = json.loads(shown(raw, "--format", "sarif")[1])["runs"][0]["results"]
    github = shown(raw, "--format", "github")[1]

    assert (record["path"], record["cell"], record["line"]) == ("a.ipynb", 5, 3)
    assert [(one["path"], one["cell"], one["line"]) for one in record["because"]] == [
        ("a.ipynb", 4, 3),
        ("a.ipynb", 5, 3),
    ]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], result["message"]["text"][:8]) == (3, "cell 5: ")
    assert [one["message"]["text"][:8] for one in result["relatedLocations"]] == [
        "cell 4: ",
        "cell 5: ",
    ]
    assert github.startswith("::error file=a.ipynb,line=3,col=5,")
    assert "::cell 5: " in github


@pytest.mark.usefixtures("here")
def test_a_baseline_knows_a_cells_line_by_its_text() -> None:
    loop = "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n"

    shown(notebook(HEAD, loop), "--write-baseline", "base.json")

    moved = notebook("print('a new cell')\n", HEAD, "# a new line\n" + loop)
    assert shown(moved, "--baseline", "base.json")[0] == 0


def test_a_suppression_that_silences_nothing_is_told_with_its_cell() -> None:
    clean = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    raw = notebook(HEAD, f"x = 1\n{clean}  # gradkeeper: allow stale-gradient - no\n")

    assert check_notebook(raw, "a.ipynb").unused == [("cell 3:4", "stale-gradient")]


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"display_name": "R", "language": "R", "name": "ir"}},
        {"language_info": {"name": "julia", "version": "1.9"}},
    ],
)
def test_a_notebook_in_another_language_is_left_alone(metadata: dict[str, object]) -> None:
    made = json.loads(notebook("x <- c(1, 2)\nloss.backward() %>% f\n")) | {"metadata": metadata}

    checked = check_notebook(json.dumps(made).encode(), "r.ipynb")

    assert (checked.findings, checked.loops) == ([], 0)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"kernelspec": {"language": "python"}, "language_info": {"name": "python"}},
        {"language_info": {"name": "ipython"}},
        {"kernelspec": {"name": "my-env", "display_name": "R and D"}},
    ],
)
def test_a_notebook_that_may_be_python_is_checked(metadata: dict[str, object]) -> None:
    loop = "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n"
    made = json.loads(notebook(HEAD, loop)) | {"metadata": metadata}

    found = check_notebook(json.dumps(made).encode(), "a.ipynb").findings

    assert [one.rule for one in found] == ["GK101"]


def test_a_cell_that_does_not_parse_costs_that_cell() -> None:
    loop = "for x in loader:\n    model(x).mean().backward()\n    optimizer.step()\n"
    raw = notebook(HEAD, "fine = 1\nfor x in\n", loop, "x = (\n")

    found = check_notebook(raw, "a.ipynb").findings

    assert [(one.rule, one.cell, one.site.line) for one in found] == [
        ("GK000", 3, 2),
        ("GK101", 4, 3),
        ("GK000", 5, 1),
    ]
    assert found[0].detail == "nothing in this cell was checked"


@pytest.mark.parametrize(
    ("first", "rules"),
    [("import tensorflow as tf", []), ("import lasagne", []), ("import torch", ["GK000"])],
)
def test_a_gap_in_a_notebook_that_has_nothing_to_do_with_pytorch_is_not_ours_to_tell(
    first: str, rules: list[str]
) -> None:
    found = check_notebook(notebook(first, "loss = <your code>"), "a.ipynb").findings

    assert [one.rule for one in found] == rules


@pytest.mark.parametrize(
    "cell",
    [
        "model?",
        "model.forward??",
        "?model",
        "!ls -la {path} | grep x",
        "if True:\n    !pip install x\n    %cd /tmp\n",
        "files = !ls *.py",
        "pip install -q torch==2.1",
        "cd data/images",
        "# Colab\n%%bash\nfor f in *; do echo $f; done",
        "\n%%writefile a.py\nx = (",
        "%%time\nx = 1",
        "%timeit -n 10 model(x)",
        "    x = 1\n    if x:\n        y = 2\n",
        "await model.fit()",
    ],
)
def test_what_ipython_reads_is_no_syntax_error(cell: str) -> None:
    assert check_notebook(notebook(HEAD, cell), "a.ipynb").findings == []


def test_python_that_looks_like_a_command_stays_python() -> None:
    cell = "cat = 1\nls = [cat]\nrm = ls [0]\nfor x in loader:\n    model(x).mean().backward()\n"
    raw = notebook(HEAD, cell + "    optimizer.step()\n")

    assert [one.rule for one in check_notebook(raw, "a.ipynb").findings] == ["GK101"]


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b'{"cells": [{}]}', b'{"cells": 3}'])
def test_what_is_no_notebook_is_unparsable(raw: bytes) -> None:
    (finding,) = check_notebook(raw, "a.ipynb").findings

    assert finding.rule == "GK000"
    assert finding.message.startswith("cannot be read as a notebook: ")


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


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("style", STYLES)
def test_a_diff_shows_cells_however_the_file_is_written(style: str) -> None:
    made = json.loads(notebook(HEAD, LOOP, "print(1)"))
    raw = json.dumps(made, **STYLES[style]).encode()  # type: ignore[arg-type]

    code, text = shown(raw, "--diff")

    assert code == 1
    assert text.splitlines()[:2] == ["--- a/a.ipynb:cell 3", "+++ b/a.ipynb:cell 3"]
    changed = [line for line in text.splitlines()[2:] if line.startswith(("-", "+"))]
    assert changed == ["+    optimizer.zero_grad()"]


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"cells": 3}', '{"nbformat": 4}'])
def test_what_is_no_notebook_is_told_with_a_way_out_for_notebooks(text: str) -> None:
    (finding,) = check_notebook(text.encode(), "a.ipynb").findings

    assert finding.message.startswith("cannot be read as a notebook: ")
    assert finding.remedy == "open it in Jupyter and save it again, or leave the file out"


def test_a_cell_that_is_one_string_stays_one() -> None:
    made = {"cells": [{"cell_type": "code", "source": HEAD + LOOP}], "nbformat": 4}

    new = json.loads(fixed(json.dumps(made).encode()))

    assert new["cells"][0]["source"] == HEAD + LOOP + "\n    optimizer.zero_grad()"


def test_a_line_that_moves_takes_its_comment_along() -> None:
    new = sources(fixed(notebook(HEAD, MOVED)))[2]

    assert new.endswith("    optimizer.step()\n    optimizer.zero_grad()  # why\n")
    assert new.count("zero_grad") == 1


@pytest.mark.parametrize(("gap", "told"), [("x = = 1", ["GK000"]), ("x = 1", ["GK107"])])
def test_what_a_notebook_leaves_undone_is_not_told_where_a_cell_is_missing(
    gap: str, told: list[str]
) -> None:
    train = "for x in loader:\n    optimizer.zero_grad()\n    model(x).mean().backward()\n"

    found = check_notebook(notebook(HEAD, gap, train), "a.ipynb").findings

    assert [one.rule for one in found] == told
