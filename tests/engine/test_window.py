"""A window is a `with` block: what its end does, once, and how it cannot be used."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from gradkeeper.engine import (
    ClosedWindowError,
    Engine,
    EngineWarning,
    LoaderError,
    LossError,
    NestedWindowError,
    UnusedWindowError,
    WindowError,
)
from tests.engine.problems import classifier, credit_all, engine_of, loader, rows, same


class Spy(SGD):
    """Writes down when it steps and when it is zeroed."""

    def __init__(self, model: nn.Module, calls: list[str]) -> None:
        super().__init__(model.parameters(), lr=0.1)
        self.calls = calls

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.calls.append("step")
        super().step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.calls.append("zero")
        super().zero_grad(set_to_none)


class SpyScheduler(torch.optim.lr_scheduler.ConstantLR):
    def step(self, epoch: int | None = None) -> None:
        getattr(self.optimizer, "calls", []).append("tick")
        super().step(epoch)


def test_leaving_the_block_steps_ticks_and_zeroes_once_in_that_order() -> None:
    calls: list[str] = []
    model = classifier()
    optimizer = Spy(model, calls)
    engine = Engine(model, optimizer, scheduler=SpyScheduler(optimizer))
    calls.clear()

    with engine.window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))
        assert calls == []

    assert calls == ["step", "tick", "zero"]
    assert all(p.grad is None for p in model.parameters())
    assert (window.stepped, window.reason, window.step) == (True, None, 1)


def test_an_early_break_still_closes_and_leaves_the_rest_to_the_next_window() -> None:
    model = classifier()
    seen: list[list[int]] = []
    batches = [(torch.full((1, 6), float(n)), torch.zeros(1, dtype=torch.long)) for n in range(7)]

    for window in engine_of(model).windows(batches, size=4):
        seen.append([])
        with window:
            for x, y in window:
                seen[-1].append(int(x[0, 0]))
                window.backward(cross_entropy(model(x), y))
                if x[0, 0] == 1:
                    break
        assert window.stepped

    assert seen == [[0, 1], [2, 3, 4, 5], [6]]
    assert window.step == 3


def test_leaving_the_whole_loop_from_inside_the_block_still_spends() -> None:
    model = classifier()
    before = classifier()

    for window in engine_of(model).windows(loader(), size=4):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y))
                break
            break

    assert window.stepped
    assert not same(model, before)


def test_continue_skips_a_micro_batch_and_nothing_else() -> None:
    batches = list(loader(16))
    model, twin = classifier(), classifier()

    for window in engine_of(model).windows(batches, size=4):
        with window:
            for place, (x, y) in enumerate(window):
                if place == 2:
                    continue
                window.backward(cross_entropy(model(x), y))
    for window in engine_of(twin).windows([*batches[:2], batches[3]], size=3):
        with window:
            for x, y in window:
                window.backward(cross_entropy(twin(x), y))

    assert same(model, twin)


def test_what_a_window_knows_while_it_is_open() -> None:
    model = classifier()
    with engine_of(model).window() as window:
        assert (window.loss, window.weight, window.step) == (None, 0, 0)
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]), weight=4)
        assert window.loss == pytest.approx(1.1, abs=0.5)
        assert (window.weight, window.stepped, window.grad_norm) == (4, False, None)


def test_a_further_reading_goes_on_where_the_first_one_stopped() -> None:
    model = classifier()
    for window in engine_of(model).windows(loader(16), size=4):
        with window:
            x, y = next(iter(window))
            window.backward(cross_entropy(model(x), y))
            credit_all(window, model)
        assert window.read == 4


def test_an_empty_loader_gives_no_window() -> None:
    model = classifier()
    nothing: list[tuple[Tensor, Tensor]] = []

    assert list(engine_of(model).windows(nothing, size=4, epochs=2)) == []
    assert list(engine_of(model).batches(nothing, size=4)) == []


def stream(count: int) -> Iterator[tuple[Tensor, Tensor]]:
    yield from list(loader(4 * count))


def test_a_loader_without_a_length_is_read_to_its_end() -> None:
    model, twin = classifier(), classifier()
    reads = []
    for window in engine_of(model).windows(stream(6), size=4):
        with window:
            credit_all(window, model)
        reads.append(window.read)
    for window in engine_of(twin).windows(list(stream(6)), size=4):
        with window:
            credit_all(window, twin)

    assert reads == [4, 2]
    assert same(model, twin)


def test_an_iterator_read_to_its_end_is_refused_in_the_second_epoch() -> None:
    model = classifier()

    with pytest.raises(LoaderError, match="epoch 2 has no batches"):
        for window in engine_of(model).windows(stream(3), size=2, epochs=2):
            with window:
                credit_all(window, model)


class Liar(list[tuple[Tensor, Tensor]]):
    def __init__(self, said: int, real: int) -> None:
        super().__init__(stream(real))
        self.said = said

    def __len__(self) -> int:
        return self.said


@pytest.mark.parametrize("said", [2, 5, 9])
def test_a_length_that_is_wrong_loses_no_batch(said: int) -> None:
    model = classifier()
    reads = []
    for window in engine_of(model).windows(Liar(said, 6), size=2):
        with window:
            credit_all(window, model)
        reads.append(window.read)

    assert sum(reads) == 6


def test_gradients_already_there_are_cleared_with_a_warning() -> None:
    model, twin = classifier(), classifier()
    x, y = rows(4)
    cross_entropy(model(x), y).backward()

    engine = engine_of(model)
    with pytest.warns(EngineWarning, match="already holds gradients") as caught:
        with engine.window() as window:
            window.backward(cross_entropy(model(x), y))
    with engine_of(twin).window() as window:
        window.backward(cross_entropy(twin(x), y))

    assert same(model, twin)
    assert caught[0].filename == __file__


def test_zeros_left_by_zero_grad_are_nothing_to_warn_of() -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    cross_entropy(model(rows(4)[0]), rows(4)[1]).backward()
    optimizer.zero_grad(set_to_none=False)

    with Engine(model, optimizer).window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))

    assert window.stepped


def test_batchnorm_in_a_window_of_several_is_told_once() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    engine = engine_of(model)

    with pytest.warns(EngineWarning, match="layer '1' normalises each micro-batch") as caught:
        for window in engine.windows(loader(32), size=4):
            with window:
                credit_all(window, model)

    assert len(caught) == 1


@pytest.mark.parametrize("mode", ["windows of one", "eval"])
def test_batchnorm_that_changes_nothing_is_not_told(mode: str) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model.train(mode != "eval")

    for window in engine_of(model).windows(loader(16), size=1 if mode != "eval" else 4):
        with window:
            credit_all(window, model)

    assert window.stepped


def test_batches_are_moved_whatever_they_are_made_of() -> None:
    model = classifier()
    batch = {"x": torch.ones(2, 6), "name": "a", "more": [torch.ones(1), (torch.ones(1), 3)]}
    engine = Engine(model, SGD(model.parameters(), lr=0.1), to="meta")

    (group,) = engine.batches([batch])

    moved = group[0]
    assert moved["x"].device.type == "meta"
    assert moved["more"][1][0].device.type == "meta"
    assert (moved["name"], moved["more"][1][1]) == ("a", 3)


def test_windows_do_not_nest() -> None:
    model = classifier()
    engine = engine_of(model)

    with engine.window():
        with pytest.raises(NestedWindowError, match="still open"):
            with engine.window():
                pass
    with engine.window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))

    assert window.stepped


def test_a_window_is_used_once() -> None:
    model = classifier()
    with engine_of(model).window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))

    with pytest.raises(ClosedWindowError, match="used once"):
        with window:
            pass


def test_backward_outside_the_block_is_refused() -> None:
    model = classifier()
    window = engine_of(model).window()
    loss = cross_entropy(model(rows(4)[0]), rows(4)[1])

    with pytest.raises(ClosedWindowError, match="not before it"):
        window.backward(loss)
    with window:
        pass
    with pytest.raises(ClosedWindowError, match="not after it"):
        window.backward(loss)


def test_micro_batches_are_read_inside_the_block() -> None:
    for window in engine_of(classifier()).windows(loader(), size=2):
        with pytest.raises(ClosedWindowError, match="not before it"):
            next(iter(window))
        break


def test_a_window_without_a_loader_has_no_micro_batches() -> None:
    with pytest.raises(WindowError, match="has no loader"):
        with engine_of(classifier()).window() as window:
            next(iter(window))


def test_a_window_that_is_never_entered_is_refused() -> None:
    with pytest.raises(UnusedWindowError, match="never entered"):
        for _ in engine_of(classifier()).windows(loader(), size=2):
            pass


def test_a_loop_that_reads_nothing_does_not_run_for_ever() -> None:
    with pytest.raises(UnusedWindowError, match="for ever"):
        for window in engine_of(classifier()).windows(loader(), size=2):
            with window:
                pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: torch.zeros(()), "needs no gradient"),
        (lambda model: model[0].weight, "one number"),
        (lambda model: 0.5, "is a tensor"),
        (lambda model: torch.ones((), requires_grad=True) * 2, "reaches no parameter"),
    ],
)
def test_a_loss_that_cannot_train_is_refused(make: object, message: str) -> None:
    model = classifier()
    engine = engine_of(model)

    with pytest.raises(LossError, match=message):
        with engine.window() as window:
            window.backward(make(model))  # type: ignore[operator]

    assert same(model, classifier())


def test_a_second_loss_that_reaches_nothing_is_refused_too() -> None:
    model = classifier()
    stranger = torch.ones((), requires_grad=True)

    with pytest.raises(LossError, match="reaches no parameter"):
        with engine_of(model).window() as window:
            window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))
            window.backward(stranger * 2)

    assert same(model, classifier())


def test_a_second_loss_that_reaches_another_layer_only_is_fine() -> None:
    model = classifier()
    last = list(model.parameters())[-1]

    with engine_of(model).window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))
        window.backward(last.square().sum(), counts=False)

    assert window.stepped


def test_counts_false_needs_a_call_to_follow() -> None:
    model = classifier()
    with pytest.raises(LossError, match="first call"):
        with engine_of(model).window() as window:
            window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]), counts=False)


def test_an_unknown_reduction_is_refused() -> None:
    model = classifier()
    with pytest.raises(LossError, match="'mean' or 'sum'"):
        with engine_of(model).window() as window:
            loss = cross_entropy(model(rows(4)[0]), rows(4)[1])
            window.backward(loss, reduction="avg")  # type: ignore[arg-type]


class Finale(list[tuple[Tensor, Tensor]]):
    """Draws a random number once it is read to its end, as a worker's farewell may."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from super().__iter__()
        torch.rand(())


def test_a_tail_is_spent_before_the_loader_is_asked_for_more() -> None:
    """Dropout after the last batch of an epoch would see other random numbers otherwise."""
    parts = list(loader(24))
    by_hand = classifier(dropout=0.5)
    optimizer = SGD(by_hand.parameters(), lr=0.1)
    torch.manual_seed(3)
    drawn = []
    for _ in range(2):
        for place, (x, y) in enumerate(Finale(parts)):
            cross_entropy(by_hand(x), y).backward()
            if place in (3, 5):
                drawn.append(torch.rand(()).item())
                optimizer.zero_grad()

    model = classifier(dropout=0.5)
    torch.manual_seed(3)
    told = []
    for window in engine_of(model).windows(Finale(parts), size=4, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y))
        told.append(torch.rand(()).item())

    assert told == drawn
