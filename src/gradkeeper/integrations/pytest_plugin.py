"""pytest: tests that train fail where their gradients go astray.

Installed with gradkeeper; `-p no:gradkeeper` leaves it out. A test asks for the fixture, a watch
that runs while the test does, and fails with what was found:

    def test_the_loop_trains(gradkeeper):
        train(epochs=2)

`pytest --gradkeeper` watches every test. A marker watches one, or changes what becomes of findings:

    @pytest.mark.gradkeeper(ignore="GK203", on_finding="raise")
    def test_the_loop_trains(): ...

`on_finding` is "fail" (the default: at the end of the test), "raise" (at the user's line), "warn"
(shown beside the test) or "record" (only kept, in `gradkeeper.findings`). Fixtures run before the
test, so what they train is not watched. `gradkeeper.testing` holds assertions about a training step
(assert_partition_invariant), a loader (assert_loader_resumes) and a whole program
(assert_resume_exact).
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from gradkeeper.extras import INSTALL_TORCH
from gradkeeper.integrations.ignoring import codes_of

# What needs torch is imported when a test is watched: it takes seconds.
if TYPE_CHECKING:
    from gradkeeper.model import Finding
    from gradkeeper.watcher.session import OnFinding
    from gradkeeper.watching import Watch

MARKER = "gradkeeper(ignore=..., on_finding=...): watch the gradients of this test"
CHOICES = ("fail", "raise", "warn", "record")


@dataclass(frozen=True, slots=True)
class Watched:
    """A test's watch, and what the test asked for."""

    watch: "Watch"
    on_finding: str
    ignored: frozenset[str]


WATCHED = pytest.StashKey[Watched]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("gradkeeper").addoption(
        "--gradkeeper",
        action="store_true",
        help="watch the gradients of every test, and fail it on errors and warnings",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def gradkeeper(request: pytest.FixtureRequest) -> "Watch":
    """A watch that runs while the test does; the test fails with what was found."""
    return _watched(request.node).watch


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    asked = item.config.getoption("--gradkeeper") or item.get_closest_marker("gradkeeper")
    if not asked and WATCHED not in item.stash:
        return (yield)
    watched = _watched(item)
    # A test that is run again gets a watch of its own.
    del item.stash[WATCHED]
    try:
        result = yield from _under(watched)
    except BaseException:
        if watched.watch.findings:
            item.add_report_section("call", "gradkeeper", _told(watched.watch.findings))
        raise
    _settle(item, watched)
    return result


def _under(watched: Watched) -> Generator[None, Any, Any]:
    from gradkeeper.watcher.session import ignore

    with ignore(*watched.ignored), watched.watch:
        return (yield)


def _settle(item: pytest.Item, watched: Watched) -> None:
    findings = watched.watch.findings
    if findings and watched.on_finding == "fail":
        pytest.fail(_told(findings), pytrace=False)
    if findings and watched.on_finding == "warn":
        item.warn(pytest.PytestWarning(_told(findings)))


def _told(findings: "list[Finding]") -> str:
    from gradkeeper.report.text import render

    return render(findings)


def _watched(item: pytest.Item) -> Watched:
    if WATCHED not in item.stash:
        try:
            item.stash[WATCHED] = _asked(item.get_closest_marker("gradkeeper"))
        except ValueError as error:
            raise pytest.fail.Exception(f"the marker gradkeeper {error}", pytrace=False) from None
    return item.stash[WATCHED]


def _asked(marker: pytest.Mark | None) -> Watched:
    """ValueError says what is wrong with the marker."""
    options: dict[str, Any] = {"ignore": (), "on_finding": "fail"}
    given = {} if marker is None else marker.kwargs
    if given.keys() - options.keys() or (marker is not None and marker.args):
        raise ValueError("takes ignore=... and on_finding=..., and nothing else")
    options |= given
    on_finding = options["on_finding"]
    if on_finding not in CHOICES:
        raise ValueError(f"has on_finding={on_finding!r}; there are {', '.join(CHOICES)}")
    ignored = codes_of(options["ignore"])
    return Watched(_new_watch("raise" if on_finding == "raise" else "record"), on_finding, ignored)


def _new_watch(on_finding: "OnFinding") -> "Watch":
    try:
        from gradkeeper.watching import Watch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        needs = f"gradkeeper needs torch: {INSTALL_TORCH}"
        raise pytest.fail.Exception(needs, pytrace=False) from None
    return Watch(on_finding=on_finding)
