"""`gradkeeper run`: whichever way a script ends, what was seen is written, and the end is its own.

Real processes and real signals: nothing here is told from inside.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gradkeeper.cli import build_parser
from gradkeeper.cli.run import fails
from gradkeeper.model import Finding, Severity, Site

TRAINS = """
import os, signal, sys, time
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def train(steps):
    for x in torch.randn(steps, 8, 4):
        model(x).square().mean().backward()
        optimizer.step()

train(40)
"""
WRITTEN = ("--tape", "t.tape", "--report", "page.html")
WAITS = """
print("ready", flush=True)
while True:
    train(1)
    time.sleep(0.01)
"""


def heed_signals() -> None:
    """What is started by `nohup`, or in a script's background, ignores them, and so would ours."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(folder: Path, script: str, *options: str, **env: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(script)
    return subprocess.Popen(
        [sys.executable, "-m", "gradkeeper", "run", *WRITTEN, *options, "train.py"],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    )


def ended(job: subprocess.Popen[str]) -> tuple[int, str]:
    with job:
        try:
            _, stderr = job.communicate(timeout=300)
        finally:
            job.kill()
    return job.returncode, stderr


def signalled(folder: Path, script: str, number: int) -> tuple[int, str]:
    """The exit code and standard error of a script that is sent a signal when it is ready."""
    job = start(folder, script)
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    job.send_signal(number)
    return ended(job)


def expect_all_is_written(folder: Path, stderr: str) -> None:
    assert "found 1 error" in stderr
    assert "GK101" in (folder / "page.html").read_text()
    last = (folder / "t.tape").read_text().splitlines()[-1]
    assert json.loads(last)["event"] == "close"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_script_and_what_was_seen_is_written(
    tmp_path: Path, number: int, code: int
) -> None:
    returned, stderr = signalled(tmp_path, TRAINS + WAITS, number)

    assert returned == code
    expect_all_is_written(tmp_path, stderr)


def test_ctrl_c_shows_the_script_s_own_traceback_and_no_line_of_ours(tmp_path: Path) -> None:
    returned, stderr = signalled(tmp_path, TRAINS + WAITS, signal.SIGINT)

    assert returned == 130
    expect_all_is_written(tmp_path, stderr)
    assert "KeyboardInterrupt" in stderr
    assert 'train.py", line' in stderr
    assert "/gradkeeper/" not in stderr
    assert "runpy" not in stderr


IN_AN_ENTRY = """
import gradkeeper.watcher

inside = os.path.join(os.path.dirname(gradkeeper.watcher.__file__), "an_entry.py")
code = "def enter(): os.kill(os.getpid(), number); print('whole', flush=True)"
exec(compile(code, inside, "exec"), globals())
enter()
while True:
    train(1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_until_what_the_watcher_writes_is_whole(tmp_path: Path, number: int) -> None:
    job = start(tmp_path, f"{TRAINS}\nnumber = {int(number)}\n{IN_AN_ENTRY}")
    assert job.stdout is not None
    first = job.stdout.readline()
    returned, stderr = ended(job)

    assert first == "whole\n"
    assert returned == 128 + number
    expect_all_is_written(tmp_path, stderr)
    assert "an_entry.py" not in stderr


def test_ctrl_c_s_handler_is_shown_as_python_s_own(tmp_path: Path) -> None:
    script = """
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.signal(signal.SIGINT, signal.SIG_IGN) is signal.default_int_handler
assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN
"""

    returned, stderr = signalled(tmp_path, TRAINS + script + WAITS, signal.SIGINT)

    assert returned == 130
    expect_all_is_written(tmp_path, stderr)


def test_the_script_s_own_handler_is_called_and_its_exit_code_kept(tmp_path: Path) -> None:
    handler = """
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)) is signal.SIG_DFL
"""

    returned, stderr = signalled(tmp_path, TRAINS + handler + WAITS, signal.SIGTERM)

    assert returned == 7
    expect_all_is_written(tmp_path, stderr)


def test_a_handler_that_is_given_back_is_the_default_one_again(tmp_path: Path) -> None:
    handler = """
before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
assert before == 0
signal.signal(signal.SIGTERM, 0)
"""

    returned, stderr = signalled(tmp_path, TRAINS + handler + WAITS, signal.SIGTERM)

    assert returned == 143
    expect_all_is_written(tmp_path, stderr)


def test_a_script_that_catches_everything_is_ended_all_the_same(tmp_path: Path) -> None:
    stubborn = """
print("ready", flush=True)
while True:
    try:
        train(1)
        time.sleep(0.01)
    except BaseException:
        pass
"""

    returned, stderr = signalled(tmp_path, TRAINS + stubborn, signal.SIGTERM)

    assert returned == 143
    expect_all_is_written(tmp_path, stderr)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(3)", 3),
        ("os._exit(0)", 1),
        ("sys.exit(5)", 5),
        ("raise KeyError('mine')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(9)'])", 9),
    ],
)
def test_what_was_seen_is_written_when_the_script_ends_itself(
    tmp_path: Path, end: str, code: int
) -> None:
    returned, stderr = ended(start(tmp_path, f"{TRAINS}\n{end}\n"))

    assert returned == code
    expect_all_is_written(tmp_path, stderr)


def test_a_forked_child_ends_as_it_would_without_us(tmp_path: Path) -> None:
    forks = """
import multiprocessing

def wait():
    time.sleep(300)

for _ in range(20):  # now and then a signal comes before a child has begun
    child = multiprocessing.get_context("fork").Process(target=wait)
    child.start()
    child.terminate()
    child.join()
    assert child.exitcode == -signal.SIGTERM, child.exitcode
other = os.fork()
if not other:
    os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 4
"""

    returned, stderr = ended(start(tmp_path, TRAINS + forks))

    assert returned == 1, stderr
    assert stderr.count("found 1 error") == 1
    expect_all_is_written(tmp_path, stderr)


def test_a_main_thread_that_hangs_outside_python_is_ended_too(tmp_path: Path) -> None:
    hangs = """
import ctypes
print("ready", flush=True)
ctypes.CDLL(None).sleep(100000)
ctypes.CDLL(None).sleep(100000)
"""

    returned, stderr = signalled(tmp_path, TRAINS + hangs, signal.SIGTERM)

    assert returned == 143
    expect_all_is_written(tmp_path, stderr)


def test_a_tape_can_be_read_after_a_kill_and_no_empty_page_is_left(tmp_path: Path) -> None:
    returned, _ = signalled(tmp_path, TRAINS + WAITS, signal.SIGKILL)
    again = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "replay", "t.tape"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert returned == -signal.SIGKILL
    assert not (tmp_path / "page.html").exists()
    assert (again.returncode, "GK101" in again.stdout) == (1, True)


def test_a_script_that_does_not_parse_shows_python_s_words_and_no_line_of_ours(
    tmp_path: Path,
) -> None:
    returned, stderr = ended(start(tmp_path, "import torch\nfor x in\n"))

    assert returned == 1
    assert stderr.startswith('  File "train.py", line 2\n    for x in\n')
    assert "/gradkeeper/" not in stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import no_such_module", "before the script died of ModuleNotFoundError"),
        ("raise SystemExit(3)", "before the script ended with exit code 3"),
        ("import torch; torch.ones(3)", "while the script ran"),
    ],
)
def test_where_no_training_was_seen_that_is_what_is_said(
    tmp_path: Path, script: str, said: str
) -> None:
    _, stderr = ended(start(tmp_path, script))

    happened = f"no training was seen: no backward and no optimizer step happened {said}\n"
    assert stderr.endswith(happened)
    assert "nothing found" not in stderr
    page = (tmp_path / "page.html").read_text()
    assert "No training was seen" in page
    until = f" {said}" if said.startswith("before") else ""
    assert f"No backward call and no step was seen{until}." in page


def test_a_script_that_dies_after_a_correct_step_is_not_said_to_balance(tmp_path: Path) -> None:
    script = TRAINS.replace("    model(x)", "    optimizer.zero_grad()\n        model(x)")

    _, stderr = ended(start(tmp_path, f"{script}\nraise ValueError\n"))

    assert stderr.endswith("nothing found before the script died of ValueError\n")
    assert "The books balance" not in (tmp_path / "page.html").read_text()


def test_under_a_launcher_a_finding_is_told_and_the_exit_code_is_the_script_s(
    tmp_path: Path,
) -> None:
    returned, stderr = ended(start(tmp_path, TRAINS, TORCHELASTIC_RUN_ID="none"))

    assert returned == 0
    expect_all_is_written(tmp_path, stderr)
    assert "--fail-on warning makes it 1" in stderr


def test_under_a_launcher_a_finding_is_a_failure_if_asked_for(tmp_path: Path) -> None:
    job = start(tmp_path, TRAINS, "--fail-on", "error", TORCHELASTIC_RUN_ID="none")

    assert ended(job)[0] == 1


ALONE: dict[str, str] = {}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none"}
DEEPSPEED = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
ACCELERATE = {"ACCELERATE_MIXED_PRECISION": "no"}


@pytest.mark.parametrize(
    ("options", "launcher", "warning", "error"),
    [
        ((), ALONE, True, True),
        ((), TORCHRUN, False, False),
        ((), DEEPSPEED, False, False),
        ((), ACCELERATE, False, False),
        (("--fail-on", "warning"), ACCELERATE, True, True),
        (("--fail-on", "error"), TORCHRUN, False, True),
        (("--fail-on", "error"), ALONE, False, True),
        (("--fail-on", "never"), ALONE, False, False),
        (("--exit-zero",), ALONE, False, False),
    ],
)
def test_which_findings_are_a_failure(
    options: tuple[str, ...],
    launcher: dict[str, str],
    warning: bool,
    error: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in {*TORCHRUN, *DEEPSPEED, *ACCELERATE}:
        monkeypatch.delenv(name, raising=False)
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    args = build_parser().parse_args(["run", *options, "train.py"])

    assert fails([found(Severity.WARNING)], args) is warning
    assert fails([found(Severity.ERROR)], args) is error
    assert fails([], args) is False


def found(severity: Severity) -> Finding:
    site = Site("train.py", 1)
    return Finding(rule="GK101", name="stale-gradient", severity=severity, site=site, message="")
