"""Replicas that differ, on the page: since which step, on which rank, and where."""

from dataclasses import replace

from gradkeeper.model import Event
from gradkeeper.model import events as ev
from gradkeeper.report.statement import replicas
from gradkeeper.report.statement.page import render
from tests.report.statement.telling import adopted, at, told, unfolded, window


def compared(step: int, *, parameter: str = "", equal: int | None = None) -> Event:
    return ev.Replicas(
        site=at(7),
        rank=1 if parameter else None,
        optimizer="optimizer",
        step=step,
        world=2,
        parameter=parameter,
        differing=(1,) if parameter else (),
        equal=equal,
    )


def of_two_ranks(*told_of_all: Event) -> list[Event]:
    tape = [adopted(), *(window() * 4)]
    zero, one = ([replace(event, rank=rank) for event in tape] for rank in (0, 1))
    return [*zero, *told_of_all, *one]


PARTED = of_two_ranks(
    compared(1), compared(2, equal=1), compared(4, parameter="net.<head>", equal=2)
)


def test_the_steps_are_listed_with_the_first_parameter_that_differs() -> None:
    page = replicas.render(told(PARTED))

    assert page.count("equal on all 2 ranks") == 2
    assert page.count('class="odd"') == 1
    assert "<code>net.&lt;head&gt;</code>" in page
    assert "<td>rank 1</td>" in page


def test_the_windows_of_that_step_are_marked_on_all_ranks() -> None:
    statement = told(PARTED)

    assert [one.rule for one in statement.findings] == ["GK504"]
    assert [len(shape.pins) for shape in unfolded(statement)] == [0, 0, 0, 1]


def test_replicas_that_stay_equal_take_no_room() -> None:
    statement = told(of_two_ranks(compared(1), compared(2, equal=1)))

    assert replicas.render(statement) == ""
    assert 'id="replicas" aria-labelledby="replicas-title" hidden' in render(statement, "x")
