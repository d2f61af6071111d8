"""One to four processes, started once for all tests; each test runs its function in them."""

from collections.abc import Iterator

import pytest

from tests.engine.ranks.pool import Pool

POOLS = {"one_rank", "two_ranks", "three_ranks", "four_ranks"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In one worker of xdist: in two, each would start all of these processes."""
    for item in items:
        if isinstance(item, pytest.Function) and POOLS & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("ranks"))


@pytest.fixture(scope="session")
def one_rank() -> Iterator[Pool]:
    pool = Pool(1)
    yield pool
    pool.end()


@pytest.fixture(scope="session")
def two_ranks() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.end()


@pytest.fixture(scope="session")
def three_ranks() -> Iterator[Pool]:
    pool = Pool(3)
    yield pool
    pool.end()


@pytest.fixture(scope="session")
def four_ranks() -> Iterator[Pool]:
    pool = Pool(4)
    yield pool
    pool.end()
