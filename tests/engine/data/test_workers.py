"""A DataLoader with workers, which draw random numbers of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from tests.checkpoint.same import same
from tests.engine.data.interrupting import Run, in_parts, plainly, seed_all
from tests.engine.data.loaders import MAPPED, Failing, Make, Noisy, prepared

STAYING = {"leaving": False, "staying": True}
# Each stands for something that the others don't do; the rest runs with --slow.
TELLING = ("shuffled-leaving", "nested-leaving", "mixing-leaving", "generator-staying")
CASES = [
    pytest.param(make, staying, id=name, marks=[] if name in TELLING else pytest.mark.slow)
    for case, make in MAPPED.items()
    for how, staying in STAYING.items()
    for name in [f"{case}-{how}"]
]


def check(built: Callable[[], Any], *cuts: list[int], epochs: int = 3) -> None:
    plain = plainly(built, epochs=epochs)
    for parts in cuts:
        assert same(in_parts(built, parts, epochs=epochs), plain), parts


@pytest.mark.parametrize(("make", "staying"), CASES)
def test_a_run_in_parts_equals_the_plain_loop(make: Make, staying: bool) -> None:
    def built() -> Any:
        return make(None, num_workers=2, persistent_workers=staying)

    length = (len(plainly(built, epochs=3)) - 1) // 3

    check(built, [], [1], [length], [length + 1, 1], [2, 0, length + 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("staying", STAYING.values(), ids=STAYING)
def test_a_run_cut_after_any_batch_equals_the_plain_loop(staying: bool) -> None:
    def built() -> Any:
        return MAPPED["owning"](None, num_workers=2, persistent_workers=staying, prefetch_factor=3)

    check(built, *([batches] for batches in range(19)))


def test_more_workers_than_batches_and_one_that_never_gets_a_turn() -> None:
    def built() -> Any:
        return DataLoader(Noisy(items=2), batch_size=2, num_workers=2, persistent_workers=True)

    check(built, [1], [2], [0, 1])


def test_spawned_workers_are_told_too() -> None:
    def built() -> Any:
        # No torch.Generator in it: torch 2.13 cannot send one to a spawned worker.
        return MAPPED["mixing"](
            None, num_workers=1, multiprocessing_context="spawn", worker_init_fn=prepared
        )

    check(built, [3], epochs=1)


def test_worker_init_fn_sees_the_users_dataset() -> None:
    def built() -> Any:
        return MAPPED["shuffled"](None, num_workers=2, worker_init_fn=prepared)

    check(built, [3], epochs=1)


def test_a_batch_that_failed_is_behind_and_so_is_what_it_drew() -> None:
    def built() -> Any:
        return DataLoader(Failing(), batch_size=2, num_workers=2)

    check(built, [2], [3], [4], epochs=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_of_batches_behind_are_not_read_again(tmp_path: Path, workers: int) -> None:
    reads = tmp_path / "reads"
    seed_all(0)
    run = Run(lambda: MAPPED["shuffled"](None, num_workers=workers))
    run.go_on(epochs=1, most=4)
    saved = run.save()

    again = Run(lambda: MAPPED["shuffled"](reads, num_workers=workers))
    again.load(saved)
    again.go_on(epochs=1)

    behind = [int(item) for batch, _ in run.seen for item in batch[:, 0].tolist()]
    read = [int(line) for line in reads.read_text().split()]
    assert sorted(behind + read) == list(range(11))


def test_the_reads_are_written_down_where_there_are_any(tmp_path: Path) -> None:
    reads = tmp_path / "reads"

    plainly(lambda: MAPPED["shuffled"](reads, num_workers=2), epochs=1)

    assert sorted(int(line) for line in reads.read_text().split()) == list(range(11))
