"""The context manager: what it leaves behind, what it lets through, what it costs nobody."""

import gc
import json
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, optimizer
from torch.utils.data import DataLoader, TensorDataset, dataloader

from gradkeeper import FindingError, Watch, ignore, watch
from gradkeeper.report import json_format
from gradkeeper.watcher.loops import find_loops
from tests.watcher.loops import run


def faulty(steps: int = 6) -> None:
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(steps, 8, 4):
        model(x).square().mean().backward()
        opt.step()


def rows(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 4))


def train(steps: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = lr_scheduler.StepLR(opt, 10)
    for (x,) in DataLoader(rows(steps * 8), batch_size=8, shuffle=True):
        opt.zero_grad()
        model(x).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        scheduler.step()
    return [p.detach().clone() for p in model.parameters()]


def tapped() -> list[Any]:
    """Everything in torch that a watch replaces."""
    return [
        torch.Tensor.backward,
        torch.autograd.backward,
        torch.optim.Optimizer.__init__,
        torch.optim.Optimizer.zero_grad,
        nn.Module.zero_grad,
        nn.Module.load_state_dict,
        nn.utils.clip_grad_norm_,
        nn.utils.clip_grad_value_,
        torch.amp.GradScaler.scale,
        torch.amp.GradScaler.step,
        lr_scheduler.LRScheduler.step,
        lr_scheduler.SequentialLR.step,
        dataloader._BaseDataLoaderIter.__next__,
        torch.save,
        torch.load,
        nn.Parameter.grad,
        len(optimizer._global_optimizer_pre_hooks),
        len(optimizer._global_optimizer_post_hooks),
    ]


def test_torch_is_as_it_was_after_a_watch() -> None:
    before = tapped()

    with watch(on_finding="record"):
        assert tapped() != before
        with watch(on_finding="record"):
            faulty()

    assert tapped() == before


def test_torch_is_as_it_was_after_a_steady_loop() -> None:
    before = tapped()

    with watch(on_finding="record"):
        faulty(steps=40)

    assert tapped() == before


def test_torch_is_as_it_was_after_an_exception() -> None:
    before = tapped()

    with pytest.raises(KeyError), watch(on_finding="record"):
        raise KeyError

    assert tapped() == before


def test_nested_watches_both_see() -> None:
    with watch(on_finding="record") as outer, watch(on_finding="record") as inner:
        faulty()

    assert [one.rule for one in inner.findings] == ["GK101"]
    assert [one.rule for one in outer.findings] == ["GK101"]


def test_results_are_bitwise_those_without() -> None:
    plain = train(40)

    with watch(on_finding="record"):
        watched = train(40)

    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_raise_stops_before_the_step_is_taken() -> None:
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_on() -> None:
        for x in torch.randn(6, 8, 4):
            weights.append(model.weight.detach().clone())
            model(x).square().mean().backward()
            opt.step()

    weights: list[torch.Tensor] = []
    with pytest.raises(FindingError) as caught, watch(on_finding="raise"):
        train_on()

    assert caught.value.finding.rule == "GK101"
    assert torch.equal(model.weight, weights[-1])


def test_ignore_silences_a_region() -> None:
    with watch(on_finding="raise") as seen, ignore("GK101"):
        faulty()

    assert seen.findings == []


def test_a_finding_is_shown_with_the_variable_s_name(capsys: pytest.CaptureFixture[str]) -> None:
    with watch(on_finding="warn"):
        faulty()

    shown = capsys.readouterr().err
    assert "GK101 stale-gradient" in shown
    assert "account `opt`" in shown


def test_only_the_named_optimizers_are_watched() -> None:
    model = nn.Linear(4, 1)
    mine = torch.optim.SGD(model.parameters(), lr=0.1)

    with watch(mine, on_finding="record") as seen:
        faulty()
        for x in torch.randn(6, 8, 4):
            mine.zero_grad()
            model(x).square().mean().backward()
            mine.step()

    assert seen.findings == []


def test_a_steady_loop_is_counted_and_not_written_down(tmp_path: Path) -> None:
    loop = run(
        tmp_path,
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(1000):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        """,
    )

    assert len(loop.watch.tape) < 80


def test_steps_are_counted_through_a_steady_loop(tmp_path: Path) -> None:
    loop = run(
        tmp_path,
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(500):
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if i < 400:
                optimizer.zero_grad()
        """,
    )

    (found,) = loop.watch.findings
    assert (found.first_step, found.last_step, found.count) == (402, 500, 99)


def test_nothing_is_kept_alive() -> None:
    with Watch(on_finding="record"):
        model = nn.Linear(4, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(30, 8, 4):
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
        held = [weakref.ref(one) for one in (model, model.weight, model.weight.grad, opt, loss)]
        del model, opt, loss
        gc.collect()

        assert [reference() for reference in held] == [None] * len(held)


def test_threads_are_watched_each_for_itself() -> None:
    with watch(on_finding="record") as seen:
        threads = [threading.Thread(target=train, args=(20,)) for _ in range(3)]
        threads.append(threading.Thread(target=faulty))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [one.rule for one in seen.findings] == ["GK101"]


def test_a_loader_s_worker_processes_are_left_alone() -> None:
    with watch(on_finding="record") as seen:
        model = nn.Linear(4, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            for (x,) in DataLoader(rows(32), batch_size=8, num_workers=1):
                opt.zero_grad()
                model(x).square().mean().backward()
                opt.step()

    assert seen.findings == []


def nested_loops() -> None:
    for epoch in range(3):
        for step in range(4):
            print(epoch, step)


def while_loop() -> None:
    count = 0
    while count < 3:
        count += 1


@pytest.mark.parametrize(
    ("function", "targets"),
    [(nested_loops, [("epoch",), ("step",)]), (while_loop, [()])],
)
def test_loops_are_read_from_bytecode(
    function: Callable[[], None], targets: list[tuple[str, ...]]
) -> None:
    loops = sorted(find_loops(function.__code__), key=lambda one: one.start)

    assert [one.targets for one in loops] == targets


def test_threads_that_train_one_model_are_let_alone() -> None:
    """One at a time, for torch itself does not bear more; a thread's own order says nothing."""
    model = nn.Linear(4, 1)
    turn = threading.Lock()

    def hogwild() -> None:
        opt = torch.optim.SGD(model.parameters(), lr=0.001)
        for x in torch.randn(60, 8, 4):
            with turn:
                model(x).square().mean().backward()
            with turn:
                opt.step()
                opt.zero_grad()

    with watch(on_finding="record") as seen:
        threads = [threading.Thread(target=hogwild) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert seen.findings == []


def test_a_thread_that_joins_in_the_middle_of_a_backward_takes_nothing_away() -> None:
    model = nn.Linear(4, 1)
    sending, joined = threading.Event(), threading.Event()

    def first() -> None:
        opt = torch.optim.SGD(model.parameters(), lr=0.001)
        for x in torch.randn(20, 8, 4):
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.register_hook(lambda grad: sending.set())
            loss.register_hook(lambda grad: joined.wait() and None)
            loss.backward()
            opt.step()

    def second() -> None:
        sending.wait()
        opt = torch.optim.SGD(model.parameters(), lr=0.001)
        opt.zero_grad()
        joined.set()
        threads[0].join()
        model(torch.randn(8, 4)).square().mean().backward()
        opt.step()

    with watch(on_finding="record") as seen:
        threads = [threading.Thread(target=first), threading.Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert seen.findings == []


def test_a_thread_whose_optimizer_owns_something_else_is_told() -> None:
    def elsewhere() -> None:
        model, other = nn.Linear(4, 1), nn.Linear(4, 1)
        opt = torch.optim.SGD(other.parameters(), lr=0.001)
        for x in torch.randn(20, 8, 4):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()

    with watch(on_finding="record") as seen:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    assert "GK103" in [one.rule for one in seen.findings]


def test_a_step_that_raised_does_not_hide_the_next(tmp_path: Path) -> None:
    loop = run(
        tmp_path,
        """
        class Failing(torch.optim.SGD):
            def step(self, closure=None):
                if len(steps) == 3:
                    steps.append(0)
                    raise RuntimeError("no memory")
                steps.append(0)
                super().step()

        steps = []
        model = nn.Linear(4, 1)
        optimizer = Failing(model.parameters(), lr=0.1)
        for i, x in enumerate(torch.randn(12, 8, 4)):
            if i < 8:
                optimizer.zero_grad()
            model(x).square().mean().backward()
            try:
                optimizer.step()
            except RuntimeError:
                continue
        """,
    )

    assert loop.found == [f"GK101:{loop.line('        optimizer.step()')}"]


def test_a_model_gives_its_parameters_their_names() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    opt = torch.optim.SGD(model[0].parameters(), lr=0.1)

    with watch(opt, model=model, on_finding="record") as seen:
        for x in torch.randn(6, 8, 4):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()

    (found,) = seen.findings
    assert found.rule == "GK105"
    assert "`model.1`" in found.message


def test_the_environment_chooses_where_no_argument_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADKEEPER", "record")

    assert Watch().on_finding == "record"
    assert watch(on_finding="raise").on_finding == "raise"


def test_an_unknown_choice_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="on_finding must be one of warn, raise, record"):
        watch(on_finding="loud")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (nn.Linear(4, 1), r"takes optimizers, watch\(optimizer, model=model\).*not a Linear"),
        ([torch.optim.SGD([nn.Parameter(torch.ones(1))])], "takes optimizers.*not a list"),
        ("record", "takes optimizers.*not a str"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_what_can(wrong: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        watch(wrong)


def test_a_model_that_is_none_is_refused() -> None:
    wrong: Any = "net"

    with pytest.raises(TypeError, match=r"takes a torch.nn.Module, not a str"):
        watch(model=wrong)


def test_a_finding_has_the_place_that_json_tells(tmp_path: Path) -> None:
    with Watch(on_finding="record") as seen:
        faulty()

    (finding,) = seen.findings
    record = json.loads(json_format.render([finding]))["findings"][0]

    assert (finding.path, finding.line, finding.column) == (
        record["path"],
        record["line"],
        record["column"],
    )


@pytest.mark.parametrize("several", [False, True])
def test_an_edge_of_the_graph_may_stand_for_a_loss(several: bool) -> None:
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    with watch(on_finding="record") as watched:
        for x in torch.randn(3, 8, 4):
            edge = torch.autograd.graph.get_gradient_edge(model(x).square().mean())
            torch.autograd.backward([edge] if several else edge, torch.ones(()))
            opt.step()

    assert [found.rule for found in watched.findings] == ["GK101"]
    assert all(parameter.grad is not None for parameter in model.parameters())
