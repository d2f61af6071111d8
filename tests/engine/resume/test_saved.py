"""What a save holds and when it happens, seen from inside one process."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from gradkeeper.checkpoint import Store
from gradkeeper.engine import Engine, Window
from gradkeeper.model import audit
from gradkeeper.model import events as ev
from gradkeeper.rules import ALL
from gradkeeper.watcher import Watch
from tests.engine.problems import classifier, loader, same

SIZE, EPOCHS = 4, 2


class Stop(Exception):  # noqa: N818
    """In place of a kill."""


def build(folder: Path | None = None, dropout: float = 0.5, **options: Any) -> Engine:
    net = classifier(dropout=dropout)
    optimizer = Adam(net.parameters(), lr=0.01)
    return Engine(net, optimizer, checkpoint=folder, **options)


def model_of(engine: Engine) -> nn.Module:
    return engine._owners["optimizer"].model


def train(
    engine: Engine, after: Callable[[int], object] = lambda count: None, epochs: int = EPOCHS
) -> nn.Module:
    """Calls `after` at the end of each micro-step, with their number in this process."""
    net = model_of(engine)
    count = 0
    for window in engine.windows(loader(23, shuffle=True), size=SIZE, epochs=epochs):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y), weight=len(y))
                count += 1
                after(count)
    return net


def stop_at(engine: Engine, saved: int, stopped: int) -> Callable[[int], None]:
    def after(count: int) -> None:
        if count == saved:
            engine.save()
        if count == stopped:
            raise Stop

    return after


def interrupted(folder: Path, saved: int, **options: Any) -> None:
    torch.manual_seed(3)
    engine = build(folder, **options)
    with pytest.raises(Stop):
        train(engine, stop_at(engine, saved, saved + 1))


def whole(epochs: int = EPOCHS) -> nn.Module:
    torch.manual_seed(3)
    return train(build(), epochs=epochs)


@pytest.mark.parametrize("saved", range(1, 12))
def test_a_run_goes_on_from_any_micro_step(tmp_path: Path, saved: int) -> None:
    interrupted(tmp_path, saved)
    torch.manual_seed(99)
    engine = build(tmp_path)

    assert engine.resume()

    assert same(train(engine), whole())


def test_more_epochs_are_fine_in_mid_run_and_after_its_end(tmp_path: Path) -> None:
    torch.manual_seed(3)
    engine = build(tmp_path)
    train(engine, epochs=1)
    engine.save()
    again = build(tmp_path)
    again.resume()

    assert same(train(again, epochs=3), whole(epochs=3))


def test_a_finished_run_hands_out_nothing_more(tmp_path: Path) -> None:
    engine = build(tmp_path)
    net = train(engine)
    engine.save()
    again = build(tmp_path)
    again.resume()
    steps = again.steps

    assert same(train(again), net)
    assert again.steps == steps


def test_a_loop_that_was_left_is_over_and_says_so(tmp_path: Path) -> None:
    engine = build(tmp_path)
    for window in engine.windows(loader(23), size=SIZE):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model_of(engine)(x), y))
        engine.save()
        break
    again = build(tmp_path)
    again.resume()

    with pytest.warns(UserWarning, match="was left by `break`"):
        assert list(again.windows(loader(23), size=SIZE)) == []


def test_a_save_in_a_loop_waits_for_the_boundary_and_is_then_durable(tmp_path: Path) -> None:
    engine = build(tmp_path)
    names: list[int] = []

    def after(count: int) -> None:
        names.append(len(Store(tmp_path).names()))
        if count == 2:
            engine.save()

    train(engine, after, epochs=1)

    assert names == [0, 0, 1, 1, 1, 1]


def test_save_every_counts_steps(tmp_path: Path) -> None:
    engine = build(tmp_path, save_every=2, keep=9)

    train(engine, epochs=3)

    facts = [Store(tmp_path).look(name).facts for name in Store(tmp_path).names()]
    assert [one["steps"]["optimizer"] for one in facts] == [2, 4, 6]


def test_without_a_loader_a_save_happens_at_once_or_as_the_window_ends(tmp_path: Path) -> None:
    engine = build(tmp_path)
    store = Store(tmp_path)
    x = torch.randn(4, 6)

    engine.save()
    assert len(store.names()) == 1
    with engine.window() as window:
        window.backward(model_of(engine)(x).sum())
        engine.save()
        assert len(store.names()) == 1
    assert len(store.names()) == 2


def test_backward_calls_before_the_first_micro_batch_are_not_made_twice(tmp_path: Path) -> None:
    def run(engine: Engine, save_at: int = 0) -> nn.Module:
        net, count = model_of(engine), 0
        for window in engine.windows(loader(23), size=SIZE):
            with window:
                window.backward(sum(p.square().sum() for p in net.parameters()))  # type: ignore[arg-type]
                for x, y in window:
                    window.backward(cross_entropy(net(x), y))
                    count += 1
                    if count == save_at:
                        engine.save()
                    if count == save_at + 1 and save_at:
                        raise Stop
        return net

    with pytest.raises(Stop):
        run(build(tmp_path, dropout=0.0), save_at=2)
    engine = build(tmp_path, dropout=0.0)
    engine.resume()

    assert same(run(engine), run(build(dropout=0.0)))


def test_state_dict_goes_where_the_user_likes() -> None:
    torch.manual_seed(3)
    engine = build()
    kept: list[Any] = []

    def after(count: int) -> None:
        if count == 6:
            kept.append(pickle.loads(pickle.dumps(engine.state_dict())))
            raise Stop

    with pytest.raises(Stop):
        train(engine, after)
    again = build()
    again.load_state_dict(kept[0])

    assert same(train(again), whole())


class Wide(Optimizer):
    """Keeps what it remembers in another dtype than its parameters', and counts in int64."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": torch.tensor(0.1)})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["sum"] = state.get("sum", torch.zeros_like(p, dtype=torch.float64)) + p.grad
                state["count"] = state.get("count", torch.tensor(0)) + 1
                p.sub_((group["lr"] * state["sum"]).to(p.dtype))


def test_an_optimizer_comes_back_in_its_own_dtypes(tmp_path: Path) -> None:
    def engine() -> Engine:
        net = nn.Linear(6, 3).to(torch.float32)
        return Engine(net, Wide(net.parameters()), checkpoint=tmp_path)

    first = engine()
    with first.window() as window:
        window.backward(model_of(first)(torch.randn(4, 6)).sum())
    first.save()
    second = engine()
    rate = second._owners["optimizer"].optimizer.param_groups[0]["lr"]
    second.resume()

    pairs = zip(
        first._owners["optimizer"].optimizer.state.values(),
        second._owners["optimizer"].optimizer.state.values(),
        strict=True,
    )
    for one, other in pairs:
        assert (other["sum"].dtype, other["count"].dtype) == (torch.float64, torch.int64)
        assert torch.equal(one["sum"], other["sum"])
        assert torch.equal(one["count"], other["count"])
    assert second._owners["optimizer"].optimizer.param_groups[0]["lr"] is rate


def test_sparse_gradients_and_parameters_without_one_are_kept_apart(tmp_path: Path) -> None:
    def engine(name: str = "killed") -> Engine:
        torch.manual_seed(0)
        net = nn.ModuleDict({"table": nn.Embedding(9, 2, sparse=True), "idle": nn.Linear(2, 1)})
        optimizer = SGD(net.parameters(), lr=0.1)
        return Engine(net, optimizer, checkpoint=tmp_path / name)

    def run(engine: Engine, stop: bool = False) -> nn.Module:
        net: Any = model_of(engine)
        for window in engine.windows([torch.tensor([1, 1, 4]), torch.tensor([4, 2])], size=2):
            with window:
                for batch in window:
                    window.backward(net["table"](batch).square().mean())
                    engine.save()
                    if stop and window.read == 2:
                        raise Stop
        return net  # type: ignore[no-any-return]

    with pytest.raises(Stop):
        run(engine(), stop=True)
    again = engine()
    again.resume()

    assert same(run(again), run(engine("whole")))


def test_hidden_buffers_frozen_parameters_and_modes_come_back(tmp_path: Path) -> None:
    def engine() -> Engine:
        net = classifier()
        net.register_buffer("hidden", torch.zeros(2), persistent=False)
        return Engine(net, SGD(net.parameters(), lr=0.1), checkpoint=tmp_path)

    first = engine()
    net: Any = model_of(first)
    net.hidden.add_(3)
    net[0].weight.requires_grad_(False)
    net[2].eval()
    first.save()
    second = engine()
    second.resume()

    again: Any = model_of(second)
    assert again.hidden.tolist() == [3, 3]
    assert not again[0].weight.requires_grad
    assert not again[2].training
    assert again[3].weight.requires_grad
    assert again[0].training


def test_tracked_things_come_back_whenever_they_are_named(tmp_path: Path) -> None:
    first = build(tmp_path)
    ema = first.track("ema", nn.Linear(2, 2))
    first.track("history", [1.5, 2.5])
    draw = first.track("draw", torch.Generator().manual_seed(4))
    torch.rand(3, generator=draw)
    first.save()
    second = build(tmp_path)
    history: list[float] = second.track("history", [])
    second.resume()
    other = second.track("ema", nn.Linear(2, 2))
    drawn = second.track("draw", torch.Generator())

    assert same(ema, other)
    assert history == [1.5, 2.5]
    assert torch.equal(torch.rand(2, generator=draw), torch.rand(2, generator=drawn))


def test_the_watcher_sees_a_resumed_run_as_the_engine_does(tmp_path: Path) -> None:
    interrupted(tmp_path, 2)
    with Watch() as watch:
        engine = build(tmp_path)
        engine.resume()
        train(engine, lambda count: engine.save())

    kinds = (ev.Backward, ev.Step, ev.Zero, ev.Adjust)
    seen = [type(event) for event in watch.tape if isinstance(event, kinds)]
    done = [type(event) for event in engine.tape if isinstance(event, kinds)]
    assert seen == done
    assert list(watch.findings) == []
    assert list(audit(engine.tape, ALL)) == []
    restored = [event.gradients for event in engine.tape if isinstance(event, ev.Restore)]
    assert restored == [False, True]


def test_the_bar_goes_on_where_it_was(tmp_path: Path) -> None:
    interrupted(tmp_path, 6)
    engine = build(tmp_path)
    begun: list[tuple[int, int]] = []

    class Bar:
        def begin(self, epoch: int, epochs: int, windows: int | None, behind: int = 0) -> None:
            begun.append((epoch, behind))

        def closed(self, window: Window) -> None: ...

        def advance(self) -> None: ...

        def end(self) -> None: ...

    engine._progress = Bar()
    engine.resume()
    train(engine)

    assert begun == [(0, 1), (1, 0)]
