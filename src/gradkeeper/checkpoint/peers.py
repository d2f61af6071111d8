"""Processes that save and load one checkpoint together: what one fails in, all fail in."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from gradkeeper.checkpoint.errors import PeerError

T = TypeVar("T")


class Peers(Protocol):
    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """Everyone's value, in the order of ranks; plain values, as JSON has them."""
        ...


class Alone:
    rank = 0
    size = 1

    def gather(self, value: Any) -> list[Any]:
        return [value]


def all_of(peers: Peers, act: Callable[[], T]) -> list[T]:
    """What each one's act gives. The failure of one is raised by all, when all have ended."""
    answer, failure = None, None
    try:
        answer = act()
    except Exception as error:
        failure = error
    told = peers.gather([answer, None if failure is None else _reason(failure)])
    if failure is not None:
        raise failure
    _raise_told(told)
    return [answer for answer, _ in told]


def first_of(peers: Peers, act: Callable[[], T]) -> T:
    """The first one acts; all have its answer, or its failure."""
    if peers.rank == 0:
        return all_of(peers, act)[0]
    told = peers.gather([None, None])
    _raise_told(told)
    answer: T = told[0][0]
    return answer


def _raise_told(told: list[Any]) -> None:
    for rank, (_, reason) in enumerate(told):
        if reason is not None:
            raise PeerError(f"rank {rank} failed: {reason}")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or repr(error)
