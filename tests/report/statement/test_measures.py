import math

from gradkeeper.model import Event
from gradkeeper.model import events as ev
from gradkeeper.report.statement import measures
from tests.report.statement.telling import adopted, at, told, window


def measure(step: int, loss: float = 1.0, **norms: float) -> Event:
    return ev.Measure(
        site=at(7),
        optimizer="optimizer",
        step=step,
        loss=loss,
        layers=tuple(norms),
        norms=tuple(norms.values()),
    )


def test_a_curve_has_each_value_at_its_window() -> None:
    skipped = [*window()[:-1], ev.Step(site=at(7), optimizer="optimizer", taken=False)]
    tape = [adopted(), measure(1, 4.0), *window(), *skipped, measure(2, 2.0), *window()]

    (curve,) = measures.curves(told(tape))

    assert (curve["name"], curve["x"], curve["y"]) == ("loss", [0, 2], [4.0, 2.0])


def test_values_of_repeated_windows_find_their_place() -> None:
    again = ev.Again(site=at(7), length=len(window()), times=8, optimizers=("optimizer",))
    tape = [adopted(), *(window() * 12), *(measure(step) for step in range(1, 21)), again]

    (curve,) = measures.curves(told(tape))

    assert curve["x"] == list(range(20))


def test_a_step_that_says_what_it_spent_is_measured_by_that() -> None:
    tape: list[Event] = [adopted()]
    for loss in (4.0, 2.0):
        told_by_step = ev.Step(site=at(7), optimizer="optimizer", loss=loss, norm=loss / 2)
        tape += [*window()[:-1], told_by_step]

    found = {curve["name"]: (curve["x"], curve["y"]) for curve in measures.curves(told(tape))}

    assert found == {"loss": ([0, 1], [4.0, 2.0]), "unclipped norm": ([0, 1], [2.0, 1.0])}


def test_what_is_not_finite_is_told_in_words_since_json_cannot() -> None:
    (curve,) = measures.curves(told([adopted(), measure(1, math.nan), *window()]))

    assert curve["y"] == ["nan"]


def test_a_long_curve_is_thinned_and_keeps_what_stands_out() -> None:
    tape: list[Event] = [adopted()]
    for step in range(1, 30_001):
        tape.append(measure(step, {12_345: 99.0, 23_456: math.inf}.get(step, 1 + step % 7 / 100)))
    again = ev.Again(site=at(7), length=len(window()), times=29_988, optimizers=("optimizer",))

    (curve,) = measures.curves(told([*tape, *(window() * 12), again]))

    points = dict(zip(curve["x"], curve["y"], strict=True))
    assert len(points) <= measures.MOST_POINTS + 1
    assert points[12_344] == 99.0
    assert points[23_455] == "inf"


def test_every_layer_has_a_row_with_its_norms() -> None:
    tape = [adopted()]
    for step, norm in enumerate((1.0, 3.0, 2.0), 1):
        tape += [measure(step, **{"model.0": norm, "<b>": 0.5}), *window()]

    table = measures.layers(told(tape))

    assert "<code>model.0</code></th><td>1</td><td>2</td><td>1</td><td>3</td>" in table
    assert "<code>&lt;b&gt;</code>" in table


def test_a_run_that_measured_nothing_has_neither() -> None:
    statement = told([adopted(), *window()])

    assert (measures.curves(statement), measures.layers(statement)) == ([], "")
