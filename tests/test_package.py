"""Wheel and sdist hold what they must, and work in an empty environment without torch."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from gradkeeper.extras import LSP, TORCH

ROOT = Path(__file__).resolve().parent.parent
ASSETS = sorted((ROOT / "src/gradkeeper/report/statement/assets").iterdir())
FAULTY = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""
TAPE = """\
{"gradkeeper-tape": 1}
{"event": "adopt", "at": ["train.py", 4, 1, "m"], "optimizer": "o", "accounts": ["a"]}
{"event": "backward", "at": ["train.py", 6, 5, "m"], "accounts": ["a"]}
{"event": "step", "at": ["train.py", 7, 5, "m"], "optimizer": "o"}
"""


def call(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    return subprocess.run(
        words, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, with the setuptools that is here: no network, and nothing left behind."""
    folder = tmp_path_factory.mktemp("build")
    copy, target = folder / "source", folder / "dist"
    listed = call("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    for name in listed:
        source = ROOT / name
        if source.is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(source.read_bytes())
    built = call(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ".", cwd=copy)
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def test_what_to_install_is_what_the_extra_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert list(TORCH) == project["optional-dependencies"]["torch"]
    assert list(LSP) == project["optional-dependencies"]["lsp"]


def test_all_is_torch_and_the_language_server() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    assert {"torch", "lsp", "all"} <= set(extras)
    assert extras["all"] == ["gradkeeper[torch,lsp]"]


def test_what_readme_installs_is_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    named = set(re.findall(r"'\.\[(\w+)\]'", (ROOT / "README.md").read_text()))

    assert {"torch", "lsp", "all"} <= named <= set(extras)


def test_nothing_tells_to_install_from_an_index_that_does_not_have_it() -> None:
    said = call("git", "grep", "-lE", "pip install '?gradkeeper", "--", ":!tests", cwd=ROOT).stdout

    assert said == ""


def tool(name: str) -> Path:
    """A program of the extra `release`."""
    here = Path(sys.executable).with_name(name)
    if not here.exists():
        pytest.skip(f"{name} is not here: scripts/_venv release")
    return here


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.mark.slow
def test_an_index_would_take_both_and_render_their_description(dist: Path) -> None:
    checked = call(tool("twine"), "check", "--strict", *dist.iterdir(), cwd=dist, NO_COLOR="1")

    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("PASSED") == 2


@pytest.mark.slow
def test_an_index_would_refuse_a_description_that_it_cannot_render(
    dist: Path, tmp_path: Path
) -> None:
    (wheel,) = dist.glob("*.whl")
    broken = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(broken, "w") as new:
        for one in old.namelist():
            text = old.read(one)
            if one.endswith("METADATA"):
                text = text.replace(b"text/markdown", b"text/x-rst")
            new.writestr(one, text)

    checked = call(tool("twine"), "check", "--strict", broken, cwd=tmp_path, NO_COLOR="1")

    assert checked.returncode == 1


@pytest.mark.slow
def test_the_metadata_says_what_an_index_asks(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")

    said = metadata(wheel)

    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert {"torch", "lsp", "all"} <= set(said.get_all("Provides-Extra", []))
    needed = [one for one in said.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert needed == [], "the linter needs nothing"


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["uvx", "pipx"])
def test_the_wheel_runs_without_being_installed(dist: Path, tmp_path: Path, runner: str) -> None:
    (wheel,) = dist.glob("*.whl")
    (tmp_path / "train.py").write_text(FAULTY)
    words = {"uvx": ["--from"], "pipx": ["run", "--spec"]}[runner]

    checked = call(
        tool(runner),
        *words,
        wheel,
        "gradkeeper",
        "check",
        "train.py",
        cwd=tmp_path,
        PIP_NO_INDEX="1",
        PIPX_HOME=str(tmp_path / "pipx"),
        UV_OFFLINE="1",
        UV_PYTHON=sys.executable,
        UV_PYTHON_DOWNLOADS="never",
        UV_CACHE_DIR=str(tmp_path / "uv"),
    )

    assert "train.py:7:5  GK101 stale-gradient" in checked.stdout, checked.stderr
    assert checked.returncode == 1


@pytest.mark.slow
def test_the_page_is_in_the_wheel_and_in_the_sdist(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")

    in_wheel = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    with tarfile.open(sdist) as archive:
        in_sdist = {Path(name).name for name in archive.getnames()}

    names = {asset.name for asset in ASSETS} | {"py.typed"}
    assert names <= in_wheel
    assert names <= in_sdist


@pytest.mark.slow
def test_the_wheel_checks_and_reports_where_there_is_nothing_else(
    dist: Path, tmp_path: Path
) -> None:
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python, gradkeeper = (tmp_path / "env/bin" / name for name in ("python", "gradkeeper"))
    (tmp_path / "train.py").write_text(FAULTY)
    (tmp_path / "run.tape").write_text(TAPE)

    installed = call(python, "-m", "pip", "install", "--no-index", wheel, cwd=tmp_path)
    checked = call(gradkeeper, "check", "train.py", cwd=tmp_path)
    replayed = call(gradkeeper, "replay", "run.tape", "--report", "page.html", cwd=tmp_path)
    watched = call(gradkeeper, "run", "train.py", cwd=tmp_path)

    assert installed.returncode == 0, installed.stderr
    assert checked.returncode == 1
    assert "train.py:7:5  GK101 stale-gradient" in checked.stdout
    assert replayed.returncode == 0, replayed.stderr
    assert "The books balance" in (tmp_path / "page.html").read_text()
    assert (watched.returncode, watched.stdout) == (2, "")
    assert "needs torch: pip install 'torch>=2.6' numpy tqdm" in watched.stderr
