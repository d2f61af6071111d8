"""Which checkpoints may go."""

from collections.abc import Callable, Iterable, Iterator


def outdated(
    numbers: Iterable[int],
    *,
    keep: int,
    every: int | None,
    is_good: Callable[[int], bool],
) -> Iterator[int]:
    """All but the newest `keep` good ones, and but each number that `every` divides.

    A bad one neither counts nor goes: it must not push a good one out, and what is not understood
    (damaged, or of a newer format) is for a person to remove.
    """
    kept = 0
    for number in sorted(numbers, reverse=True):
        is_nth = every is not None and number % every == 0
        if kept >= keep and is_nth:
            continue
        if not is_good(number):
            continue
        if kept >= keep:
            yield number
        kept += 1
