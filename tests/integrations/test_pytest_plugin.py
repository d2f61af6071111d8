"""The plugin in pytest runs of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gradkeeper import watch

pytest_plugins = ["pytester"]

LOOPS = """
import pytest
import torch

def train(*, clear):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(6, 8, 4):
        if clear:
            optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()  # here
"""
HERE = LOOPS.strip("\n").splitlines().index("        optimizer.step()  # here") + 1


@pytest.fixture(scope="module", autouse=True)
def torch_is_there() -> None:
    """What a run imports is gone after it, and parts of torch cannot be imported twice."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(optimizer):
        model(torch.randn(8, 4)).mean().backward()
        optimizer.step()


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=LOOPS.strip("\n") + "\n" + tests)
    # The run around this one makes errors of warnings.
    return pytester.runpytest_inprocess("--strict-markers", "-W", "default", *options)


def test_the_fixture_fails_a_test_whose_gradients_go_astray(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_clean(gradkeeper):
    train(clear=True)
    assert gradkeeper.findings == []

def test_stale(gradkeeper):
    train(clear=False)
    assert [one.rule for one in gradkeeper.findings] == ["GK101"]

def test_not_watched():
    train(clear=False)
""",
    )

    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines([f"test_it.py:{HERE}:9  GK101 stale-gradient*", "FAILED*test_stale*"])


def test_the_option_watches_every_test(pytester: pytest.Pytester) -> None:
    tests = """
def test_clean():
    train(clear=True)

def test_stale():
    train(clear=False)

class TestOld(__import__("unittest").TestCase):
    def test_stale_too(self):
        train(clear=False)
"""

    run(pytester, tests).assert_outcomes(passed=3)
    run(pytester, tests, "--gradkeeper").assert_outcomes(passed=1, failed=2)


def test_the_marker_says_what_becomes_of_findings(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.gradkeeper
def test_fails():
    train(clear=False)

@pytest.mark.gradkeeper(ignore="GK101, dropped-tail")
def test_ignores():
    train(clear=False)

@pytest.mark.gradkeeper(on_finding="record")
def test_records(gradkeeper):
    train(clear=False)
    assert gradkeeper.findings

@pytest.mark.gradkeeper(on_finding="warn")
def test_warns():
    train(clear=False)

@pytest.mark.gradkeeper(on_finding="raise")
def test_raises():
    with pytest.raises(__import__("gradkeeper").FindingError):
        train(clear=False)
""",
    )

    done.assert_outcomes(passed=4, failed=1, warnings=1)
    done.stdout.fnmatch_lines(["*PytestWarning: test_it.py*GK101 stale-gradient"])


def test_a_test_that_fails_by_itself_shows_both(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
def test_both(gradkeeper):
    train(clear=False)
    assert "its own fault" == ""
""",
    )

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*AssertionError*", "*gradkeeper*", "test_it.py*GK101*"])


def test_an_expected_failure_is_one(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
@pytest.mark.xfail(strict=True)
def test_stale(gradkeeper):
    train(clear=False)
""",
    )

    done.assert_outcomes(xfailed=1)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("(ignore='GK999')", "*GK999*"),
        ("(on_finding='shout')", "has on_finding='shout'; there are fail, raise, warn, record"),
        ("(onfinding='fail')", "takes ignore=... and on_finding=..., and nothing else"),
        ("('GK101')", "takes ignore=... and on_finding=..., and nothing else"),
    ],
)
def test_a_marker_that_makes_no_sense_says_so(
    pytester: pytest.Pytester, marker: str, message: str
) -> None:
    done = run(pytester, f"@pytest.mark.gradkeeper{marker}\ndef test_it(): pass\n")

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"the marker gradkeeper {message}"])
    done.stdout.no_fnmatch_line("*another exception*")


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem, log=False)
"""


def test_a_test_that_is_run_again_is_watched_anew(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(AGAIN)
    done = run(
        pytester,
        """
runs = []

@pytest.mark.gradkeeper
def test_it():
    runs.append(1)
    train(clear=len(runs) > 1)

def test_both_ran():
    assert len(runs) == 2
""",
    )

    done.assert_outcomes(passed=2)


def test_a_fault_in_the_second_run_is_seen(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(AGAIN)
    done = run(
        pytester,
        """
runs = []

def test_it(gradkeeper):
    runs.append(1)
    train(clear=len(runs) == 1)
""",
    )

    done.assert_outcomes(failed=1)


def test_torch_is_as_it_was_between_tests(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
before = torch.Tensor.backward

@pytest.mark.gradkeeper(on_finding="raise")
@pytest.mark.xfail(strict=True)
def test_dies():
    assert torch.Tensor.backward is not before
    train(clear=False)

def test_after():
    assert torch.Tensor.backward is before
""",
    )

    done.assert_outcomes(xfailed=1, passed=1)


def test_the_plugin_can_be_left_out(pytester: pytest.Pytester) -> None:
    tests = "def test_asks(gradkeeper):\n    pass\n"

    run(pytester, tests).assert_outcomes(passed=1)
    run(pytester, tests, "-p", "no:gradkeeper").assert_outcomes(errors=1)


def test_the_assertions_are_within_reach(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
from gradkeeper.testing import assert_partition_invariant, assert_resume_exact

def step(parts, *, weigh):
    model = torch.nn.Linear(4, 1)
    for x in parts:
        share = len(x) / 8 if weigh else 1 / len(parts)
        (model(x).square().mean() * share).backward()
    return model

def test_nothing_to_resume():
    with pytest.raises(Exception, match="step"):
        assert_resume_exact([__import__("sys").executable, "-c", "pass"], kills=1)

@pytest.mark.parametrize("weigh", [True, False])
def test_cut(weigh):
    assert_partition_invariant(lambda parts: step(parts, weigh=weigh), torch.randn(8, 4))
""",
    )

    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*depends on how the batch is cut*"])


def alone(folder: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A run in a process of its own, which has imported nothing yet."""
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", *options, str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder
    )


def test_a_run_that_watches_nothing_never_imports_torch(tmp_path: Path) -> None:
    test = "import sys\n\ndef test_it():\n    assert 'torch' not in sys.modules\n"

    plain = alone(tmp_path, test)
    watched = alone(tmp_path, test, "--gradkeeper")

    assert plain.returncode == 0, plain.stdout
    assert watched.returncode == 1, "the twin, which does"


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("torch", "gradkeeper needs torch: pip install 'torch>=2.6' numpy tqdm"),
        ("gradkeeper.watcher.session", "import of gradkeeper.watcher.session halted"),
    ],
)
def test_what_is_not_installed_is_named(tmp_path: Path, missing: str, told: str) -> None:
    test = f"import sys\nsys.modules['{missing}'] = None\n\ndef test_it(gradkeeper):\n    pass\n"

    done = alone(tmp_path, test)

    assert done.returncode == 1
    assert told in done.stdout
