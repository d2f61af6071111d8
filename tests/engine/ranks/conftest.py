"""One to four processes, started once for all tests; each test runs its function in them."""

from collections.abc import Iterator

import pytest

from tests.engine.ranks.pool import Pool


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
