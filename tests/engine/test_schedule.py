"""Schedulers tick once per step taken; those fed by a metric are the user's."""

import gc

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from gradkeeper.engine import Engine, EngineWarning, SetupError
from tests.engine.problems import classifier, loader, rows, same


def test_the_scheduler_ticks_once_per_window() -> None:
    batches = list(loader(24))
    twin = classifier()
    optimizer = SGD(twin.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, 6)
    for place, (x, y) in enumerate(batches):
        (cross_entropy(twin(x), y) / 2).backward()
        if place % 2 == 1:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    engine = Engine(model, optimizer, scheduler=CosineAnnealingLR(optimizer, 6))
    for window in engine.windows(batches, size=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y))

    assert same(model, twin)


def test_a_scheduler_fed_by_a_metric_is_left_to_the_user() -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = ReduceLROnPlateau(optimizer)
    engine = Engine(model, optimizer, scheduler=scheduler)

    with engine.window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))

    assert window.stepped
    assert scheduler.last_epoch == 0


def trained_on_a_plateau(epochs: int, *, fed: bool = False) -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = ReduceLROnPlateau(optimizer)
    engine = Engine(model, optimizer, scheduler=scheduler, progress=False)
    for _ in range(epochs):
        for window in engine.windows(loader(24), size=2):
            with window:
                for x, y in window:
                    window.backward(cross_entropy(model(x), y))
        if fed:
            scheduler.step(1.0)


def test_a_plateau_that_never_gets_its_metric_is_told_of_with_what_to_write() -> None:
    with pytest.warns(EngineWarning, match=r"Call scheduler\.step\(validation_loss\)"):
        trained_on_a_plateau(epochs=3)


def test_in_a_run_too_short_to_tell_it_is_said_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained_on_a_plateau(epochs=1)
    gc.collect()

    assert "ReduceLROnPlateau, the scheduler of 'optimizer', has never" in capsys.readouterr().err


def test_a_plateau_that_gets_its_metric_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    trained_on_a_plateau(epochs=4, fed=True)
    gc.collect()

    assert "never been stepped" not in capsys.readouterr().err


def test_a_plateau_of_another_optimizer_is_refused() -> None:
    model = classifier()
    scheduler = ReduceLROnPlateau(SGD(model.parameters(), lr=0.1))

    with pytest.raises(SetupError, match="another optimizer"):
        Engine(model, SGD(model.parameters(), lr=0.1), scheduler=scheduler)


def test_a_window_without_a_step_does_not_tick() -> None:
    model = classifier()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with Engine(model, optimizer, scheduler=scheduler).window():
        pass

    assert scheduler.last_epoch == 0
