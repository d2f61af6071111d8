"""What follows when ranks fared differently in a window, and how it is told."""

from collections import Counter

from gradkeeper.engine.errors import RankError
from gradkeeper.engine.ranks.news import News
from gradkeeper.engine.ranks.words import Place, State, Word


def check_same_window(words: list[Word]) -> None:
    windows = {int(word.window) for word in words}
    if len(windows) > 1:
        where = ", ".join(f"rank {rank}: {int(word.window)}" for rank, word in enumerate(words))
        raise RankError(
            f"the ranks are in different windows ({where}): each rank must open each window, with "
            "weight=0 where it has nothing to add"
        )


def check_all_run_forward(words: list[Word]) -> None:
    """Where a forward is collective, ranks run the same number of them."""
    running = [rank for rank, word in enumerate(words) if word.place == Place.FORWARD]
    others = [rank for rank, word in enumerate(words) if word.place != Place.FORWARD]
    if running and others:
        raise RankError(
            f"rank {running[0]} runs a forward and rank {others[0]} has gone on without it: "
            "sharded parameters are gathered by all ranks together, so all must run the same "
            "forwards and backwards, with weight=0 where there is nothing to add"
        )


def check_all_save(words: list[Word]) -> None:
    elsewhere = [rank for rank, word in enumerate(words) if word.place != Place.SAVE]
    if elsewhere:
        raise RankError(
            f"engine.save() was called between loops, and not on rank {elsewhere[0]}: a checkpoint "
            "is written by all ranks, so all must call it there"
        )


def failure(words: list[Word], news: News) -> str | None:
    """Why no rank may spend this window."""
    for rank, word in enumerate(words):
        if word.state in (State.FAILED, State.FAILED_LATE):
            return f"rank {rank} {news.of(rank) or 'raised an exception'}"
    for rank, word in enumerate(words):
        if word.state == State.TORN:
            return f"a backward failed half-way on rank {rank}"
    return None


def too_late(words: list[Word]) -> bool:
    """Gradients had been exchanged when a rank failed: all raise."""
    return any(word.state == State.FAILED_LATE for word in words)


def digest(words: list[Word]) -> tuple[str, ...]:
    """What each rank did, for the ledger; the line where it did otherwise than most."""
    did = [_did(word) for word in words]
    usual = Counter(did).most_common(1)[0][0]
    lines = (f" (line {int(word.line)})" if word.line else "" for word in words)
    return tuple(one if one == usual else one + line for one, line in zip(did, lines, strict=True))


def _did(word: Word) -> str:
    match word.state:
        case State.FAILED | State.FAILED_LATE:
            return "raised an exception in its window"
        case State.TORN:
            return "failed half-way in a backward"
    if not word.handed:
        return "closed its window"
    return f"filled its window with {int(word.handed)} micro-batches"
