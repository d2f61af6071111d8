"""Which files are one program, callers first; and what is said of files that need each other."""

from pathlib import Path

import pytest

from gradkeeper.cli import main
from gradkeeper.lint.check import check_files, check_program
from gradkeeper.lint.files import Sources, find
from gradkeeper.lint.program import ProgramFiles, may_train, programs, sketch
from gradkeeper.model.finding import Severity

TRAIN = """\
def train(model, optimizer, loader):
    for x in loader:
        {zero}
        model(x).mean().backward()
        optimizer.step()
"""
MAIN = """\
import torch
from engine import train

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer, torch.randn(6, 8, 4))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return list(find(["."]))


def grouped(paths: list[str]) -> list[list[str]]:
    seen = [sketch(path, Path(path).read_bytes()) for path in paths]
    return [one.paths for one in programs([one for one in seen if one is not None])]


def test_callers_come_before_what_they_call_and_strangers_stay_apart() -> None:
    paths = write(
        {
            "engine.py": TRAIN.format(zero="pass"),
            "main.py": MAIN,
            "models.py": "import torch\nclass Net(torch.nn.Module): ...\n",
            "apart.py": TRAIN.format(zero="pass"),
            "draws.py": "import torch\nprint(torch.optim)\n",
        }
    )

    assert grouped(paths) == [["apart.py"], ["main.py", "engine.py"]]


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("from lib.engine import train", "lib/engine.py"),
        ("from lib import engine", "lib/engine.py"),
        ("import lib.engine as e", "lib/engine.py"),
        ("from lib import (\n    other,\n    engine,\n)", "lib/engine.py"),
        ("from .engine import train", "tools/engine.py"),
        ("from ..lib.engine import train", "lib/engine.py"),
        ("    from engine import train", "tools/engine.py"),
    ],
)
def test_imports_are_found_as_python_would(statement: str, place: str) -> None:
    paths = write(
        {
            "tools/main.py": f"if True:\n    import os\n{statement}\nimport torch.optim\n",
            place: TRAIN.format(zero="pass"),
        }
    )

    assert grouped(paths) == [["tools/main.py", place]]


def test_a_package_hands_on_what_it_imports() -> None:
    paths = write(
        {
            "main.py": MAIN.replace("engine", "lib"),
            "lib/__init__.py": "from .engine import train\n",
            "lib/engine.py": TRAIN.format(zero="pass"),
        }
    )

    assert grouped(paths) == [["main.py", "lib/engine.py"]]


def test_what_a_package_holds_besides_is_not_part_of_the_program() -> None:
    paths = write(
        {
            "draw.py": "import lib\nfrom lib import Net\nprint(lib.optim)\n",
            "lib/__init__.py": "from .engine import train\nfrom .net import *\n",
            "lib/engine.py": TRAIN.format(zero="pass"),
            "lib/net.py": "class Net: ...\n",
        }
    )

    assert grouped(paths) == [["lib/engine.py"]]


def test_a_package_hands_on_the_modules_that_it_takes_in() -> None:
    paths = write(
        {
            "main.py": "import torch.optim\nfrom lib import one\none.engine.train()\n",
            "lib/__init__.py": "",
            "lib/one/__init__.py": "from lib.one import (\n    engine, nets\n)\n",
            "lib/one/engine.py": TRAIN.format(zero="pass"),
            "lib/one/nets.py": "class Net: ...\n",
        }
    )

    assert grouped(paths) == [["main.py", "lib/one/engine.py"]]


def test_nothing_is_looked_for_above_the_projects_root() -> None:
    write({"engine.py": TRAIN.format(zero="pass"), "p/pyproject.toml": "", "p/main.py": MAIN})

    assert grouped(["p/main.py", "engine.py"]) == [["engine.py"]]


@pytest.mark.parametrize(("root", "together"), [("setup.py", True), ("pyproject.toml", False)])
def test_a_package_may_have_a_module_that_is_called_setup(root: str, together: bool) -> None:
    write(
        {
            f"lib/{root}": "",
            "lib/main.py": MAIN.replace("from engine", "from lib.engine"),
            "lib/engine.py": TRAIN.format(zero="pass"),
        }
    )

    assert grouped(["lib/main.py", "lib/engine.py"]) == (
        [["lib/main.py", "lib/engine.py"]] if together else [["lib/engine.py"]]
    )


def test_packages_that_are_installed_side_by_side_are_no_project() -> None:
    alone = TRAIN.format(zero="pass")
    write(
        {
            "site-packages/engine/__init__.py": alone,
            "site-packages/other/__init__.py": "",
            "site-packages/other/main.py": MAIN,
            "site-packages/other/own.py": alone,
            "site-packages/other/user.py": MAIN.replace("engine", "other.own"),
        }
    )

    paths = [str(path) for path in Path("site-packages").rglob("*.py")]
    assert sorted(sorted(one) for one in grouped(paths)) == [
        ["site-packages/engine/__init__.py"],
        ["site-packages/other/own.py", "site-packages/other/user.py"],
    ]


LOOP = "for x in data:\n    loss(x).backward()\n    opt.step()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOOP, True),
        ('def f():\n    """As in:\n\n    ' + LOOP + '    """\n', False),
        ('x = \'"""\'\n' + LOOP + 'y = \'"""\'\n', True),
        ("# it isn't\n" + LOOP + "# done, isn't it\n", True),
        ("x = StandardScaler()\noptim.SGD(p)\n", False),
        ("loss_scaler(loss, optimizer, parameters=p)\n", True),
        ("scaler = GradScaler()\n", True),
        ("g = torch.autograd.grad(loss, x)\npenalty = g.norm()\n", False),
        ("g = torch.autograd.grad(loss, w)\nw.data.sub_(g)\n", True),
        ("import torch\nopt = torch.optim.SGD(p)\nopt.step()\n", True),
    ],
)
def test_a_look_at_the_bytes_tells_what_may_train(text: str, expected: bool) -> None:
    assert may_train(text.encode()) is expected


def test_a_circle_of_imports_ends() -> None:
    paths = write(
        {
            "a.py": "import b\n" + TRAIN.format(zero="pass"),
            "b.py": "import a\n" + TRAIN.format(zero="pass"),
        }
    )

    assert [sorted(one) for one in grouped(paths)] == [["a.py", "b.py"]]


def test_a_change_affects_those_who_import_the_file_at_any_depth() -> None:
    program = ProgramFiles(["main", "lib", "engine", "net"], {"engine": ["lib"], "lib": ["main"]})

    assert program.affected_by("engine") == ["main", "lib", "engine"]
    assert program.affected_by("net") == ["net"]


def test_sources_are_what_a_fix_would_leave() -> None:
    Path("a.py").write_text("old")

    sources = Sources({"a.py": b"new"})

    assert sources.read("./a.py") == b"new"
    assert sources.changed("a.py", b"newer").read("a.py") == b"newer"
    assert Path("a.py").read_text() == "old"


def told(*paths: str) -> list[tuple[str, str, int]]:
    results = check_files(list(find(paths or ["."])), fixes=False)
    return sorted(
        (one.rule, one.site.file, one.site.line)
        for _, checked in results
        for one in checked.findings
        if one.severity is not Severity.INFO
    )


def test_a_fault_stands_in_the_file_of_its_line_once() -> None:
    write({"engine.py": TRAIN.format(zero="pass"), "main.py": MAIN, "other.py": MAIN})

    assert told() == [("GK101", "engine.py", 5)]
    assert told("main.py") == [("GK101", "engine.py", 5)]


def test_a_comment_silences_a_fault_that_a_caller_brings() -> None:
    engine = TRAIN.format(zero="pass").replace("step()", "step()  # noqa: GK101")
    write({"engine.py": engine, "main.py": MAIN})

    assert told() == []
    assert told("main.py") == []


def test_a_function_that_is_called_is_judged_as_it_is_called() -> None:
    wrapped = """\
class Zeroing:
    def __init__(self, inner):
        self.inner = inner
    def step(self):
        self.inner.step()
        self.inner.zero_grad()

"""
    main = MAIN.replace("model =", wrapped + "model =")
    main = main.replace("(model, optimizer,", "(model, Zeroing(optimizer),")
    write({"engine.py": TRAIN.format(zero="pass"), "main.py": main})

    assert told() == []
    assert told("engine.py") == [("GK101", "engine.py", 5)], "by itself, nobody knows"


@pytest.mark.parametrize(("cleared", "expected"), [("self.optimizer.zero_grad()", 0), ("pass", 1)])
def test_a_file_that_only_goes_over_data_is_a_caller(cleared: str, expected: int) -> None:
    model = f"""\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.1)

    def process(self, x):
        {cleared}
        return self.layer(x).mean()

    def optimize(self, loss):
        loss.backward()
        self.optimizer.step()
"""
    trainer = """\
from model import Net

class Trainer:
    def __init__(self, loader):
        self.loader, self.net = loader, Net()

    def fit(self):
        for x in self.loader:
            self.net.optimize(self.net.process(x))
"""

    paths = write({"model.py": model, "trainer.py": trainer})

    assert grouped(paths) == [["trainer.py", "model.py"]]
    assert len(told(*paths)) == expected


def test_a_file_beside_is_judged_by_its_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        {
            "lib/engine.py": TRAIN.format(zero="pass"),
            "main.py": MAIN.replace("from engine", "from lib.engine"),
        }
    )
    settings = Path("lib/pyproject.toml")

    settings.write_text("[tool.gradkeeper]\nignore = ['GK101']\n")
    assert main(["check", "main.py"]) == 0
    settings.write_text("[tool.gradkeeper]\nignore = 3\n")
    assert main(["check", "main.py"]) == 2
    assert "must be a list of rules" in capsys.readouterr().err


def test_a_file_that_is_gone_before_it_is_checked_is_told() -> None:
    Path("there.py").write_text(TRAIN.format(zero="pass"))

    found = check_program(ProgramFiles(["there.py", "gone.py"]))

    assert {one.findings[0].rule for one in found.values()} == {"GK001"}


def test_loops_that_a_caller_ran_count_as_rehearsed(capsys: pytest.CaptureFixture[str]) -> None:
    write({"engine.py": TRAIN.format(zero="optimizer.zero_grad()"), "main.py": MAIN})

    main(["check", "."])

    assert capsys.readouterr().out == "nothing found in 1 training loop\n"


LOOP = """\
class Loop:
    def __init__(self, model, hooks):
        self.model, self.hooks = model, hooks

    def run(self, data):
        for x in data:
            for hook in self.hooks:
                hook.before()
            self.model(x).square().mean().backward()
            for hook in self.hooks:
                hook.after()
"""
HOOKS = """\
class Step:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def before(self):
        {zero}

    def after(self):
        self.optimizer.step()
"""
HOOKED = """\
import torch
from hooks import Step
from loop import Loop

model = torch.nn.Linear(4, 1)
Loop(model, [Step(torch.optim.SGD(model.parameters(), lr=0.1))]).run(torch.randn(6, 8, 4))
"""


@pytest.mark.parametrize(("zero", "faults"), [("self.optimizer.zero_grad()", []), ("pass", [9])])
def test_a_loop_and_its_steps_may_stand_in_two_files(zero: str, faults: list[int]) -> None:
    write({"loop.py": LOOP, "hooks.py": HOOKS.format(zero=zero), "main.py": HOOKED})

    assert told() == [("GK101", "hooks.py", line) for line in faults]
    assert dict(check_files(["main.py", "loop.py"]))["loop.py"].loops == 1
