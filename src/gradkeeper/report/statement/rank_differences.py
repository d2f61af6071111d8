"""Where ranks part: the windows in which they did not do the same, or after which their weights
differ.

That is known only after the run, when all ranks are compared. The exchanges of gradients are the
clock: the n-th of one rank is the n-th of all. Weights are compared after an optimizer's n-th step.
"""

from dataclasses import replace

from gradkeeper.model import events as ev
from gradkeeper.report.statement.ranks import ByRank
from gradkeeper.report.statement.window_story import Shape, Story


class Parting:
    def __init__(self) -> None:
        self._exchanges: dict[int | None, int] = {}
        self._places: dict[int | None, list[int]] = {}
        """Of each exchange, among the events of its rank."""
        self._stories: dict[tuple[int | None, int], Story] = {}
        """The window of each exchange, if it was written down."""
        self._pins: list[tuple[int, int]] = []
        """An exchange, and the finding that the ranks part there."""
        self._steps: dict[tuple[int | None, str, int], Story] = {}
        """The window of each step of each rank and optimizer, if it was written down."""
        self._differences: list[tuple[str, int, int]] = []
        """An optimizer, its step, and the finding that weights differ after it."""

    def exchanged(self, event: ev.Backward, place: int, story: Story | None) -> None:
        count = self._exchanges[event.rank] = self._exchanges.get(event.rank, 0) + 1
        self._places.setdefault(event.rank, []).append(place)
        if story is not None:
            self._stories[event.rank, count] = story

    def repeated(self, event: ev.Again, since: int) -> None:
        places = self._places.get(event.rank, [])
        each = sum(place > since for place in places[-event.length :])
        self._exchanges[event.rank] = self._exchanges.get(event.rank, 0) + each * event.times

    def told(self, event: ev.Digest, finding: int) -> None:
        self._pins.append((event.exchange or 0, finding))

    def stepped(self, rank: int | None, optimizer: str, step: int, story: Story) -> None:
        self._steps[rank, optimizer, step] = story

    def differ(self, event: ev.Replicas, finding: int) -> None:
        self._differences.append((event.optimizer, event.step, finding))

    def pin(self, books: ByRank, shapes: dict[Shape, int]) -> None:
        """In copies of the windows: repetitions may point to the same ones, and did not part."""
        known = list(shapes)
        for rank, passages in books.items():
            pins = self._pins_of(rank)
            for place, story in enumerate(passages):
                if isinstance(story, Story) and story.shape is not None and id(story) in pins:
                    shape = known[story.shape]
                    pinned = shape._replace(pins=tuple(sorted({*shape.pins, *pins[id(story)]})))
                    number = shapes.setdefault(pinned, len(shapes))
                    passages[place] = replace(story, shape=number)

    def _pins_of(self, rank: int | None) -> dict[int, set[int]]:
        """Findings, by the window of this rank that they belong to."""
        pins: dict[int, set[int]] = {}
        for exchange, finding in self._pins:
            story = self._stories.get((rank, exchange))
            if story is not None:
                pins.setdefault(id(story), set()).add(finding)
        for optimizer, step, finding in self._differences:
            story = self._steps.get((rank, optimizer, step))
            if story is not None:
                pins.setdefault(id(story), set()).add(finding)
        return pins
