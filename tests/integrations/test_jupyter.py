"""Cells in a real IPython shell, and one notebook in a real kernel."""

import atexit
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from torch.optim import optimizer

from gradkeeper.report.source import line_of

MODEL = """\
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
data = torch.randn(6, 8, 4)"""
BUILD = "optimizer = torch.optim.Adam(model.parameters(), lr=0.1)"
TRAIN = """\
for x in data:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()"""
STALE = """
for x in data:
    model(x).square().mean().backward()
    optimizer.step()
"""
KERNEL = """\
{"argv": ["%s", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
"display_name": "Python 3", "language": "python"}"""
COLOUR = re.compile(r"\x1b\[[\d;]*m")


class Cells:
    """A shell that remembers what the last cell showed."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.shown = ""
        self.html: list[str] = []
        self.error: BaseException | None = None

    def run(self, *cells: str) -> str:
        for cell in cells:
            with capture_output() as captured:
                result = self.shell.run_cell(cell, store_history=True)
            data = [output.data for output in captured.outputs]
            plain = [one.get("text/plain", "") for one in data]
            self.html = [one["text/html"] for one in data if "text/html" in one]
            self.shown = COLOUR.sub("", "\n".join([captured.stdout, captured.stderr, *plain]))
            self.error = result.error_before_exec or result.error_in_exec
        return self.shown

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    cells = Cells(shell)
    cells.run("%load_ext gradkeeper")
    yield cells
    shell.run_cell("%unload_ext gradkeeper")
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()


def test_a_cell_under_watch_names_its_lines_as_cells(cells: Cells) -> None:
    cells.run(MODEL, BUILD)

    shown = cells.run("%%gradkeeper\n" + STALE)

    assert "cell In[4] line 5  GK101 stale-gradient" in shown
    assert "    5 |     optimizer.step()" in shown
    assert "remedy: optimizer.zero_grad()" in shown
    assert "step() applies the gradient of line 4 a second time" in shown
    assert "GK101" in cells.html[0]
    assert cells.error is None


def test_a_line_of_a_cell_is_shown_as_it_was_written(cells: Cells) -> None:
    cells.run(MODEL, BUILD, "%%gradkeeper --on-finding record\n" + STALE)

    [finding] = cells["_gradkeeper"].findings

    # The cell as IPython ran it is one line: get_ipython().run_cell_magic(...)
    assert line_of(finding.site.file, 2) == "\n"
    assert line_of(finding.site.file, finding.site.line) == "    optimizer.step()\n"


def test_a_line_of_another_cell_is_named_by_it(cells: Cells) -> None:
    cells.run(
        MODEL,
        BUILD,
        "def credit(x):\n    model(x).square().mean().backward()",
        "%%gradkeeper\nfor x in data:\n    credit(x)\n    optimizer.step()",
    )

    assert "cell In[5] line 4  GK101" in cells.shown
    assert "step() applies the gradient of cell In[4] line 2 a second time" in cells.shown


def test_a_watch_by_hand_names_cells_too_and_shows_what_it_found(cells: Cells) -> None:
    cells.run(MODEL, BUILD)

    body = "".join(f"    {line}\n" for line in STALE.strip().splitlines())
    cells.run(
        "from gradkeeper import watch\n"
        f"with watch(optimizer, on_finding='record') as watched:\n{body}\nwatched"
    )

    assert "cell In[4] line 5  GK101" in cells.shown
    assert "GK101" in cells["watched"]._repr_html_()


def test_a_clean_cell_says_so(cells: Cells) -> None:
    cells.run(MODEL, BUILD, "%%gradkeeper\n" + TRAIN)

    assert "nothing found" in cells.shown


def test_a_cell_keeps_its_value_its_variables_and_its_silence(cells: Cells) -> None:
    cells.run("%%gradkeeper\n\nx = 6\nx * 7")

    assert "42" in cells.shown
    assert cells["_"] == 42
    assert cells["x"] == 6
    assert "43" not in cells.run("%%gradkeeper\nx * 7 + 1;")


def test_an_error_stays_the_cell_s_own(cells: Cells) -> None:
    cells.run("%%gradkeeper\n\n\n1 / 0")

    assert isinstance(cells.error, ZeroDivisionError)
    assert re.search(r"Cell In\[2\], line 4", cells.shown)
    assert "nothing found" not in cells.shown


def test_what_was_found_before_an_error_is_shown_as_well(cells: Cells) -> None:
    cells.run(MODEL, BUILD, f"%%gradkeeper\n{STALE}\n1 / 0")

    assert isinstance(cells.error, ZeroDivisionError)
    assert "GK101 stale-gradient" in cells.shown


def test_options_choose_as_on_the_command_line(cells: Cells) -> None:
    cells.run(MODEL, BUILD)

    assert "nothing found" in cells.run("%%gradkeeper --ignore stale-gradient\n" + STALE)
    assert "GK101" not in cells.run("%%gradkeeper --on-finding record\n" + STALE)
    assert [one.rule for one in cells["_gradkeeper"].findings] == ["GK101"]
    cells.run("%%gradkeeper --on-finding raise\n" + STALE)
    assert type(cells.error).__name__ == "FindingError"


@pytest.mark.parametrize("options", ["--ignore GK999", "--on-finding shout", "--nonsense"])
def test_an_option_that_makes_no_sense_is_no_traceback(cells: Cells, options: str) -> None:
    shown = cells.run(f"%%gradkeeper {options}\nran = True")

    assert "UsageError" in shown
    assert "Traceback" not in shown
    assert "ran" not in cells.shell.user_ns


def test_an_optimizer_that_a_cell_builds_again_is_noted(cells: Cells) -> None:
    cells.run(MODEL, BUILD, TRAIN, BUILD, TRAIN)

    assert "`optimizer` was built again" in cells.shown
    assert "trained for 6 steps" in cells.shown
    assert "what Adam remembered of them (exp_avg, exp_avg_sq) is lost" in cells.shown


def test_it_is_noted_once_and_where_it_happens(cells: Cells) -> None:
    cells.run(MODEL, BUILD, TRAIN)

    assert "built again" not in cells.run(BUILD)
    assert "built again" not in cells.run(BUILD)
    assert "built again" in cells.run(TRAIN)
    assert "built again" not in cells.run(TRAIN)
    assert "built again" not in cells.run(TRAIN + "\n# edited")


def test_a_cell_that_shows_its_optimizer_is_noted_once(cells: Cells) -> None:
    shows = f"{BUILD}\noptimizer"

    shown = cells.run(MODEL, shows, TRAIN, shows, TRAIN)

    assert shown.count("built again") == 1
    assert "`optimizer` was built again" in shown


def test_a_cell_that_builds_and_trains_is_noted_as_well(cells: Cells) -> None:
    cells.run(MODEL)

    assert "built again" not in cells.run(f"{BUILD}\n{TRAIN}")
    assert "built again" in cells.run(f"{BUILD}\n{TRAIN}")


def test_a_scheduler_of_the_optimizer_before_is_named(cells: Cells) -> None:
    plain = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    schedule = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)"
    cells.run(MODEL, plain, schedule, TRAIN)

    assert "`scheduler` still steers the one before" in cells.run(plain, TRAIN)
    assert "built again" not in cells.run(plain, schedule, TRAIN)


@pytest.mark.parametrize(
    "again",
    [
        pytest.param([MODEL, BUILD, TRAIN], id="the model as well"),
        pytest.param(["model.reset_parameters()", BUILD, TRAIN], id="weights reset"),
        pytest.param([f"model.load_state_dict(first)\n{BUILD}", TRAIN], id="weights loaded"),
        pytest.param([BUILD.replace("0.1", "0.01"), TRAIN], id="another cell: a second phase"),
        pytest.param([f"fine_{BUILD}", TRAIN.replace("optimizer", "fine_optimizer")], id="other"),
        pytest.param([TRAIN, TRAIN], id="only trained on"),
        pytest.param([BUILD], id="never used"),
    ],
)
def test_what_begins_anew_or_goes_on_by_plan_is_not_noted(cells: Cells, again: list[str]) -> None:
    cells.run(MODEL, "first = {k: v.clone() for k, v in model.state_dict().items()}", BUILD, TRAIN)

    assert "built again" not in "".join(cells.run(cell) for cell in again)


def test_an_optimizer_without_memory_is_not_noted(cells: Cells) -> None:
    plain = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    cells.run(MODEL, plain, TRAIN, plain)

    assert "built again" not in cells.run(TRAIN)


def test_unloaded_it_leaves_nothing_behind(cells: Cells) -> None:
    cells.run("%unload_ext gradkeeper")

    assert not optimizer._global_optimizer_pre_hooks
    assert "not found" in cells.run("%%gradkeeper\n1")
    cells.run("%load_ext gradkeeper", "%reload_ext gradkeeper", MODEL, BUILD, TRAIN, BUILD, TRAIN)
    assert cells.shown.count("built again") == 1


def notebook(*cells: str) -> NotebookClient:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    return NotebookClient(made, timeout=120, startup_timeout=120, kernel_name="python3")


@pytest.mark.filterwarnings("ignore")
def test_a_notebook_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # The kernel of this Python, whatever is installed for the user.
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text(KERNEL % sys.executable)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    client = notebook(
        "%load_ext gradkeeper\n" + MODEL,
        BUILD,
        "%%gradkeeper\n" + STALE,
        BUILD,
        TRAIN,
        "%%gradkeeper --on-finding raise\n" + STALE,
    )
    # The cell that is built again is one and the same, by its id.
    client.nb.cells[3]["id"] = client.nb.cells[1]["id"]

    with pytest.raises(CellExecutionError, match="FindingError"):
        client.execute(cwd=os.fspath(tmp_path))

    third, _, fifth, _ = client.nb.cells[2:]
    [shown] = third.outputs
    assert "cell In[3] line 5" in shown.data["text/html"]
    assert "cell In[3] line 5  GK101" in shown.data["text/plain"]
    [note] = fifth.outputs
    assert "`optimizer` was built again" in note.text
