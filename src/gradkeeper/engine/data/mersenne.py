"""How far one state of a Mersenne Twister is behind another: a number in place of 5 KB.

Torch's generator on the host, Python's and NumPy's RandomState are all MT19937, whose state is 624
words, a place in them, and perhaps a number kept for the next call. Between two batches a program
draws a few numbers, the same count again and again: that count and the state before say it all.
"""

from array import array
from dataclasses import dataclass
from typing import Any

import torch

from gradkeeper.rng import Drawn

WORDS = 624
AHEAD = 64
"""Blocks of words that are drawn at once in search of the other state."""
MOST_BLOCKS = 4096
"""Two and a half million numbers, which take 10 ms: who draws more between two batches, as for
noise of the size of images, pays with a record for each."""

# Of torch's state: seed, left, seeded, next, 624 words of 8 bytes each, and what is kept.
LEFT = slice(8, 12)
BLOCK = slice(24, 24 + 8 * WORDS)
LENGTH = 5056


@dataclass(frozen=True, slots=True)
class Twister:
    words: bytes
    """Of 4 bytes each."""
    place: int
    """How many of them are drawn."""
    rest: Any
    """Whatever else the state holds, which no drawing of plain words changes."""


def twister(kind: str, state: Drawn) -> Twister | None:
    """The state of a generator of that kind taken apart; None where it is no MT19937."""
    match kind, state:
        case "torch cpu", bytes() if len(state) == LENGTH:
            words = array("Q", state[BLOCK])
            left = int.from_bytes(state[LEFT], "little")
            rest = (state[: LEFT.start], state[BLOCK.stop :])
            return Twister(array("I", words).tobytes(), WORDS + 1 - left, rest)
        case "python", (version, bytes() as words, gauss):
            *_, place = array("I", words[-4:])
            return Twister(words[:-4], place, (version, gauss))
        case _, {"bit_generator": "MT19937", "state": {"key": (dtype, key), "pos": place}}:
            others = {name: value for name, value in state.items() if name != "state"}
            return Twister(key, place, (dtype, others))
    return None


def generator_state(kind: str, twister: Twister) -> Drawn:
    match kind:
        case "torch cpu":
            words = array("Q", array("I", twister.words)).tobytes()
            left = (WORDS + 1 - twister.place).to_bytes(4, "little") + (1).to_bytes(4, "little")
            return (
                twister.rest[0]
                + left
                + twister.place.to_bytes(8, "little")
                + words
                + twister.rest[1]
            )
        case "python":
            version, gauss = twister.rest
            return (version, twister.words + array("I", [twister.place]).tobytes(), gauss)
    dtype, others = twister.rest
    return {**others, "state": {"key": (dtype, twister.words), "pos": twister.place}}


def advanced(twister: Twister, count: int) -> Twister:
    """After `count` words more."""
    generator = _generator(twister)
    _draw(generator, count)
    return _twister_in(generator, twister.rest)


def words_between(before: Twister, after: Twister) -> int | None:
    """How many words lie between the two; None where they are further apart, or on no one way."""
    if not 0 < after.place <= WORDS:
        return None
    if (before.words, before.place) == (after.words, after.place):
        return 0
    first = (after.place - before.place) % WORDS
    if _twister_in(_drawn(before, first), None).words == after.words:
        return first
    return _further(before, after, first)


def _further(before: Twister, after: Twister, first: int) -> int | None:
    """By what would be drawn next: at the right place it is what `before` draws so much later."""
    wanted = _draw(_generator(after), 1)
    generator = _drawn(before, first)
    blocks = 0
    while blocks < MOST_BLOCKS:
        drawn = _draw(generator, WORDS * AHEAD)[::WORDS]
        places: list[int] = (drawn == wanted).nonzero().flatten().tolist()
        for found in places:
            count = first + (blocks + found) * WORDS
            if _twister_in(_drawn(before, count), None).words == after.words:
                return count
        blocks += AHEAD
    return None


def _draw(generator: torch.Generator, count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.int32).random_(generator=generator)


def _drawn(twister: Twister, count: int) -> torch.Generator:
    generator = _generator(twister)
    _draw(generator, count)
    return generator


def _generator(twister: Twister) -> torch.Generator:
    """Torch's, whatever it was: it draws many words at once."""
    plain = Twister(twister.words, twister.place, (bytes(8), bytes(LENGTH - BLOCK.stop)))
    state = bytearray(generator_state("torch cpu", plain))
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(state, dtype=torch.uint8))
    return generator


def _twister_in(generator: torch.Generator, rest: Any) -> Twister:
    found = twister("torch cpu", generator.get_state().numpy().tobytes())
    assert found is not None, "made here"
    return Twister(found.words, found.place, rest)
