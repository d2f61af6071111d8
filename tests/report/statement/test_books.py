from gradkeeper.model import Event
from gradkeeper.model import events as ev
from gradkeeper.report.statement.contents import Lane
from tests.report.statement.telling import adopted, at, told, unfolded, window


def test_a_window_tells_what_came_in_what_went_out_and_what_was_left() -> None:
    (shape, _) = unfolded(told([adopted(), *window(2), *window()]))

    assert [(one.kind, one.credit, one.debit, one.waiting, one.left) for one in shape.lines] == [
        ("zero", 0, 0, 0, False),
        ("backward", 2, 0, 2, False),
        ("step", 0, 2, 0, True),
        ("zero", 0, 0, 0, False),
    ]
    assert (shape.ended, shape.closed, shape.batches) == ("spent", True, 2)


def test_there_is_one_window_for_each_step() -> None:
    tape = [adopted(), *window(1), *window(3), *window(2)]

    credits = [sum(line.credit for line in one.lines) for one in unfolded(told(tape))]

    assert credits == [1, 3, 2]


def test_a_repetition_reads_as_if_it_had_been_written_out() -> None:
    ends: list[Event] = [ev.Close(site=at(9))]
    written = [adopted(), *(window() * 40), *ends]
    again = ev.Again(
        site=at(7), length=len(window()), times=28, optimizers=("optimizer",), lines=(at(6),)
    )
    folded = [adopted(), *(window() * 12), again, *ends]

    whole, short = told(written), told(folded)

    assert unfolded(short) == unfolded(whole)
    assert short.backwards == whole.backwards == 40


def test_a_repetition_carries_its_findings() -> None:
    faulty = window(zeroed=False)
    again = ev.Again(site=at(7), length=len(faulty), times=5, optimizers=("optimizer",))

    shapes = unfolded(told([adopted(), *(faulty * 12), again]))

    assert [len(shape.pins) for shape in shapes] == [0] + [1] * 16


def test_a_finding_is_pinned_to_the_window_where_it_happens() -> None:
    tape = [adopted(), *window(), *window(), *window(zeroed=False), *window()]

    assert [shape.pins for shape in unfolded(told(tape))] == [(), (), (0,), ()]


def test_alike_windows_share_one_shape() -> None:
    statement = told([adopted(), *(window() * 500)])

    assert len(unfolded(statement)) == 500
    assert (
        len(statement.shapes) == 3
    )  # the first zeroes at its top, the last is not zeroed any more


def test_a_gan_has_a_lane_for_each_optimizer_and_a_share_that_is_not_in_vain() -> None:
    both = ("critic", "generator")
    round_: list[Event] = [
        ev.Batch(site=at(3)),
        ev.Zero(site=at(4), accounts=("critic",)),
        ev.Backward(site=at(5), accounts=("critic",)),
        ev.Step(site=at(6), optimizer="critic_opt"),
        ev.Zero(site=at(7), accounts=("generator",)),
        ev.Backward(site=at(8), accounts=both),
        ev.Step(site=at(9), optimizer="generator_opt"),
    ]
    tape = [adopted("critic_opt", "critic"), adopted("generator_opt", "generator"), *(round_ * 3)]

    statement = told(tape)

    assert statement.findings == []
    assert statement.lanes == [Lane("critic_opt"), Lane("generator_opt")]
    critic = [one for one in unfolded(statement) if one.lane == 0][1]
    dropped = next(line for line in critic.lines if line.kind == "zero")
    assert (dropped.debit, dropped.lost) == (1, 0)
    assert critic.batches == 1


def test_what_is_thrown_away_is_counted_as_lost() -> None:
    wasteful: list[Event] = [
        ev.Batch(site=at(3)),
        ev.Backward(site=at(5), accounts=("model",)),
        ev.Zero(site=at(6), accounts=("model",)),
        ev.Step(site=at(7), optimizer="optimizer"),
    ]

    shapes = unfolded(told([adopted(), *(wasteful * 3)]))

    assert [sum(line.lost for line in one.lines) for one in shapes] == [1, 1, 1]


def test_a_skipped_step_spends_nothing() -> None:
    skipped = ev.Step(site=at(7), optimizer="optimizer", taken=False, scaler="scaler")

    (shape,) = unfolded(told([adopted(), *window()[:-1], skipped]))

    assert shape.ended == "skipped"
    assert shape.lines[-1].waiting == 1


def test_what_never_steps_is_one_unfinished_window_of_bounded_length() -> None:
    endless: list[Event] = [
        ev.Backward(site=at(5), accounts=("model",)),
        ev.Zero(site=at(6), accounts=("model",)),
    ]

    (shape,) = unfolded(told([adopted(), *(endless * 500)]))

    assert shape.ended == "open"
    assert len(shape.lines) + shape.more == 1000


def test_an_epoch_begins_at_the_loader_that_trains() -> None:
    train = ev.EpochBegin(site=at(3), source="train")
    check = ev.EpochBegin(site=at(8), source="check")
    tape: list[Event] = [adopted()]
    for _ in range(2):
        tape += [train, ev.Batch(site=at(3), source="train"), *window()[1:]]
        tape += [ev.Batch(site=at(3), source="train"), *window()[1:]]
        tape += [check, ev.Batch(site=at(8), source="check")]

    assert [shape.epoch for shape in unfolded(told(tape))] == [True, False, True, False]


def test_what_shows_only_at_the_end_is_pinned_to_the_last_window_with_its_line() -> None:
    idle: list[Event] = [ev.Step(site=at(8), optimizer="idle")]
    tape = [adopted(), adopted("idle", "other"), *((window() + idle) * 30), *window()]

    statement = told([*tape, ev.Close(site=at(9))])

    empty_step = [one.rule for one in statement.findings].index("GK103")
    assert [one.lane for one in unfolded(statement) if empty_step in one.pins] == [1]


def test_a_clip_that_comes_too_late_belongs_to_the_window_it_came_too_late_for() -> None:
    late: list[Event] = [ev.Clip(site=at(8), accounts=("model",), bound=1.0)]

    statement = told([adopted(), *((window() + late) * 3)])

    assert [one.rule for one in statement.findings] == ["GK304"]
    assert [len(shape.pins) for shape in unfolded(statement)] == [1, 1, 1]
