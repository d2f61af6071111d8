"""The engine's reference: nothing public is left out, nothing is told that is not there."""

from collections.abc import Callable
from typing import Any

import pytest

from docs import reference
from gradkeeper.engine import Engine, Window, errors

FUNCTIONS: list[Any] = [
    pytest.param(one, id=one.__qualname__)
    for one in (
        Engine,
        *(method for kind in (Engine, Window) for _, method in reference.methods(kind)),
    )
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_parameter_is_documented_and_no_other(function: Callable[..., Any]) -> None:
    names = [one.name for one in reference.parameters(function)]

    assert list(reference.entries(function)) == names


@pytest.mark.parametrize("kind", [Engine, Window])
def test_everything_public_says_what_it_is(kind: type) -> None:
    for _, one in (*reference.methods(kind), *reference.attributes(kind)):
        assert reference.summary(getattr(one, "fget", one))


def test_the_page_holds_every_argument_method_and_error() -> None:
    page = reference.page()

    for one in reference.parameters(Engine):
        assert f"- **{one.name}**" in page
    for kind in (Engine, Window):
        for name, _ in (*reference.methods(kind), *reference.attributes(kind)):
            assert f"### {kind.__name__}.{name}\n" in page
    for name in vars(errors):
        if name.endswith("Error"):
            assert name in page


def test_a_parameter_without_a_word_would_be_noticed() -> None:
    def function(told: int, untold: int) -> None:
        """Does.

        told: so.
        """

    assert list(reference.entries(function)) == ["told"]
