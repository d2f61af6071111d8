"""What differs between two states, in words."""

from collections import OrderedDict
from typing import Any

import numpy
import pytest
import torch

from gradkeeper.checkpoint.compare import differences

NAN = float("nan")
ZEROS = torch.zeros(3)


def told(one: Any, other: Any) -> list[str]:
    return [f"{difference.where}: {difference.what}" for difference in differences(one, other)]


@pytest.mark.parametrize(
    "state",
    [
        {"w": torch.tensor([1.0, NAN]), "n": NAN, "z": -0.0, "i": 10**6000, "c": complex(NAN, 1)},
        [numpy.array([NAN, 1.0]), numpy.float64(NAN), b"x", "y", None, True, (1, 2)],
        OrderedDict(a=torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)),
    ],
)
def test_a_state_does_not_differ_from_itself(state: Any) -> None:
    assert told(state, state) == []


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (
            torch.tensor([1.0, 2.0]),
            torch.tensor([1.0, 2.5]),
            "1 of 2 elements differ, by at most 0.5",
        ),
        (ZEROS, -ZEROS, "equal numbers in other bits: the sign of a zero, or a NaN"),
        (ZEROS, ZEROS.double(), "float32[3] against float64[3]"),
        (ZEROS, torch.zeros(1, 3), "float32[3] against float32[1, 3]"),
        (ZEROS, torch.tensor([0.0, NAN, 0.0]), "1 of 3 elements differ, by at most inf"),
        (torch.tensor(2**62), torch.tensor(2**62 + 1), "1 of 1 elements differ, by at most 1"),
        (torch.tensor(-5), torch.tensor(5), "1 of 1 elements differ, by at most 10"),
        (ZEROS.bfloat16(), ZEROS.bfloat16() + 1, "3 of 3 elements differ, by at most 1"),
        (ZEROS.to(torch.complex64), ZEROS + 2j, "3 of 3 elements differ, by at most 2"),
        (torch.tensor(True), torch.tensor(False), "1 of 1 elements differ, by at most 1"),
        (numpy.zeros(2, ">u4"), numpy.ones(2, ">u4"), "2 of 2 elements differ, by at most 1"),
        (1, 1.0, "1 against 1.0"),
        (0.0, -0.0, "0.0 against -0.0"),
        (1, 2, "1 against 2"),
        ("a" * 90, "b", f"'{'a' * 56}... against 'b'"),
        (10**6000, 1, "an int of 19,932 bits against 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_difference_says_how_much(one: Any, other: Any, what: str) -> None:
    assert told({"x": one}, {"x": other}) == [f"state['x']: {what}"]


def test_what_only_one_has_is_named() -> None:
    assert told({"a": 1, "l": [1]}, {"b": 2, "l": [1, 2]}) == [
        "state['a']: 1 against nothing",
        "state['l'][1]: nothing against 2",
        "state['b']: nothing against 2",
    ]


def test_long_lists_of_numbers_are_one_difference() -> None:
    """Python's random generator is 625 numbers: that it differs is one thing to know."""
    left = {"random": tuple(range(625))}
    right = {"random": (0, *range(2, 625), 7)}

    assert told(left, right) == ["state['random']: 624 of 625 numbers differ"]
