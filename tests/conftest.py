"""Options of the test suite, and what holds in all of its processes."""

import os

import hypothesis
import pytest

# Before torch is imported, here and in every process that a test starts: tests run side by side,
# and threads of torch that wait for a core they share with others do so by spinning.
os.environ["OMP_NUM_THREADS"] = "1"

# No time limits for examples, nor for finding them: a busy machine is no bug.
hypothesis.settings.register_profile(
    "tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow suites too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="needs --slow"))
