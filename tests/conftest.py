"""Options of the test suite, and what holds in all of its processes."""

import os

import pytest

# Before torch is imported, here and in every process that a test starts: tests run side by side,
# and threads of torch that wait for a core they share with others do so by spinning.
os.environ["OMP_NUM_THREADS"] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow suites too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="needs --slow"))
