"""Gradients and weights handled without torch's own functions, and models that are built anew."""

from pathlib import Path

from gradkeeper.engine import Engine
from gradkeeper.model import events as ev
from gradkeeper.watcher import Watch
from tests.watcher.loops import run


def test_a_model_moved_before_its_optimizer_is_built_is_silent(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1).to(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(6, 8, 4, dtype=torch.float64):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    """

    assert run(tmp_path, code).found == []


def test_parameters_that_to_has_built_anew_are_orphans(tmp_path: Path) -> None:
    code = """
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(torch.float64)
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    for x in torch.randn(6, 8, 4, dtype=torch.float64):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert f"GK103:{loop.line('optimizer.step()')}" in loop.found


def test_gradients_added_to_zeros_are_credited(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(20, 8, 4):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        grads = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
        for p, grad in zip(model.parameters(), grads):
            p.grad += grad
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.everything == []


def test_an_assigned_gradient_is_told_at_its_own_line(tmp_path: Path) -> None:
    code = """
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(4):
        w.grad = torch.ones(2)
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assigned = [one.site.line for one in loop.watch.tape if isinstance(one, ev.Assign)]
    assert assigned == 4 * [loop.line("w.grad =")]
    assert loop.found == []


def test_what_was_done_by_hand_just_before_the_loop_is_steady_is_not_lost(tmp_path: Path) -> None:
    code = """
    w = torch.zeros(4, requires_grad=True)
    for x in torch.randn(60, 16, 4):
        if w.grad is not None:
            w.grad.zero_()
        (x @ w - 1).square().mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
    """

    loop = run(tmp_path, code)

    assert loop.found == []
    assert any(isinstance(one, ev.Again) for one in loop.watch.tape)


def test_an_optimizer_that_dies_before_the_end_is_judged(tmp_path: Path) -> None:
    code = """
    def main():
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()

    main()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK107:{loop.line('.backward()')}"]


def test_nan_is_seen_without_a_clip_or_a_scaler(tmp_path: Path) -> None:
    code = """
    w = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        w.square().sum().sqrt().backward()
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK305:{loop.line('optimizer.step()')}"]


def test_the_engine_is_no_prefetcher() -> None:
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader: DataLoader[torch.Tensor] = DataLoader(torch.randn(12, 4), batch_size=2)  # type: ignore[arg-type]

    with Watch(on_finding="record") as watch:
        for window in engine.windows(loader, size=2):
            with window:
                for x in window:
                    window.backward(model(x).square().mean())

    kinds = [type(one) for one in watch.tape if isinstance(one, (ev.Batch, ev.Backward))]
    assert kinds == 6 * [ev.Batch, ev.Backward]
