"""All that something may draw random numbers from: the process's generators, and its own."""

from collections.abc import Mapping
from typing import Any

from gradkeeper import rng
from gradkeeper.engine.data.finding import Place, Search, holder
from gradkeeper.engine.errors import PositionError

Reading = dict[str, tuple[str, Any]]
"""By name of the generator: its kind and its state."""


class Sources:
    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._roots = roots
        self._shared = rng.shared()
        self._search = Search(roots)
        self._own: dict[str, Place] = dict(self._search.found)

    @property
    def has_own(self) -> bool:
        return bool(self._own)

    def look_again(self) -> None:
        """For generators that were made since; costs next to nothing where there is none."""
        if self._search.is_old():
            self._search = Search(self._roots)
            self._own = self._search.found | self._own

    def read(self) -> Reading:
        reading = {name: (rng.kind(one), rng.read(one)) for name, one in self._shared.items()}
        return reading | self.read_own()

    def read_own(self) -> Reading:
        reading: Reading = {}
        for name, place in self._own.items():
            generator = place.read()
            if rng.is_generator(generator):
                reading[name] = (rng.kind(generator), rng.read(generator))
        return reading

    def write(self, reading: Reading) -> None:
        for name, (kind, drawn) in reading.items():
            rng.write(self._generator(name, kind), drawn)

    def _generator(self, name: str, kind: str) -> Any:
        if name in self._shared:
            return self._shared[name]
        place = self._own.get(name) or holder(self._roots, name)
        if place is None:
            raise PositionError(
                f"the saved position holds the state of a generator at `{name}`, and there is no "
                "such place now: build the loader as it was built before"
            )
        self._own[name] = place
        generator = place.read()
        if rng.is_generator(generator) and rng.kind(generator) == kind:
            return generator
        # Made on first use, and this process has not used it yet.
        generator = rng.made(kind)
        place.put(generator)
        return generator


def changed(reading: Reading, before: Reading) -> Reading:
    return {name: one for name, one in reading.items() if before.get(name) != one}
