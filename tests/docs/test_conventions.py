"""The count of where people zero: one loop of each kind, and what is no training loop."""

import ast

import pytest

from bench.conventions import AFTER, BETWEEN, LOST, TOP, loops, place_of

LINES = {
    "zero": "    optimizer.zero_grad()",
    "move": "    x = x.to(device)",
    "forward": "    output = model(x)\n    loss = criterion(output, y)",
    "backward": "    loss.backward()",
    "step": "    optimizer.step()",
}


def loop(order: str) -> str:
    return "\n".join(["for x, y in loader:", *(LINES[word] for word in order.split())])


def places(source: str) -> list[str | None]:
    return [place_of(one) for one in loops(ast.parse(source))]


@pytest.mark.parametrize(
    ("order", "place"),
    [
        ("zero forward backward step", TOP),
        ("move zero forward backward step", TOP),
        ("forward zero backward step", BETWEEN),
        ("forward backward step zero", AFTER),
        ("forward backward zero step", LOST),
        ("forward backward step", None),
    ],
)
def test_a_loop_is_counted_by_where_it_zeroes(order: str, place: str | None) -> None:
    assert places(loop(order)) == [place]


def test_only_the_innermost_loop_counts() -> None:
    inner = loop("zero forward backward step").replace("\n", "\n    ")

    assert places(f"for epoch in range(3):\n    {inner}") == [TOP]
