"""The books of several ranks as one: ranks that did alike share a lane, the others stand beside it.

Each rank wrote down its own windows, repetitions folded as they came. Here they are laid side by
side, so that what all ranks did together stands together on the page.
"""

from collections.abc import Iterable

from gradkeeper.report.statement.contents import Lane, Passage, Repeat, Statement, unfolded
from gradkeeper.report.statement.window_story import Story

ByRank = dict[int | None, list[Passage]]


def fold(statement: Statement, books: ByRank) -> None:
    """Gives a statement, whose lanes are of one rank each, the passages of all ranks."""
    kinds = _alike(statement, books)
    whole = {rank: ranks for ranks in kinds for rank in ranks}
    told = {ranks[0] for ranks in kinds}
    kept: dict[Lane, int] = {}
    places = []
    for lane in statement.lanes:
        together = whole.get(lane.ranks[0], lane.ranks) if lane.ranks else ()
        places.append(kept.setdefault(Lane(lane.optimizer, together), len(kept)))
    statement.measures = {
        places[lane]: some
        for lane, some in statement.measures.items()
        if told.issuperset(statement.lanes[lane].ranks)
    }
    statement.shapes = [shape._replace(lane=places[shape.lane]) for shape in statement.shapes]
    statement.lanes = list(kept)
    statement.passages = side_by_side(
        passages for rank, passages in books.items() if rank is None or rank in told
    )


def _alike(statement: Statement, books: ByRank) -> list[tuple[int, ...]]:
    """Ranks whose windows are the same, one by one."""
    optimizers: dict[str, int] = {}
    lanes = [optimizers.setdefault(lane.optimizer, len(optimizers)) for lane in statement.lanes]
    shapes = [shape._replace(lane=lanes[shape.lane]) for shape in statement.shapes]
    numbers = {shape: number for number, shape in enumerate(shapes)}
    found: dict[object, list[int]] = {}
    for rank, passages in books.items():
        if rank is not None:
            story = tuple(
                (times, *(numbers[shapes[story.shape or 0]] for story in stories))
                for stories, times in map(unfolded, passages)
            )
            found.setdefault(story, []).append(rank)
    return [tuple(ranks) for ranks in found.values()]


def side_by_side(books: Iterable[list[Passage]]) -> list[Passage]:
    """One after the other from each rank in turn; of repetitions, as many as all of them have."""
    left = [[unfolded(passage) for passage in reversed(passages)] for passages in books]
    laid: list[Passage] = []
    while left := [queue for queue in left if queue]:
        often = min(queue[-1][1] for queue in left)
        together: list[Story] = []
        for queue in left:
            stories, times = queue.pop()
            together += stories
            if times > often:
                queue.append((stories, times - often))
        laid += together if often == 1 else [Repeat(together, often)]
    return laid
