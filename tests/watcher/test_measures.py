"""`watch(norms=True)`: what was measured is what torch itself says."""

import pytest
import torch

from gradkeeper import watch
from gradkeeper.model.events import Again, Measure
from gradkeeper.watcher.session import Watch


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def measured(watched: Watch) -> list[Measure]:
    return [event for event in watched.tape if isinstance(event, Measure)]


def norm_of(module: torch.nn.Module) -> float:
    grads = [one.grad for one in module.parameters() if one.grad is not None]
    return float(torch.nn.utils.get_total_norm(grads))


def train(batches: torch.Tensor, *, look: bool) -> list[tuple[float, float, float]]:
    """The plain loop; with `look`, each step's loss and the norms of both layers."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if look:
            seen.append((loss.item(), norm_of(model[0]), norm_of(model[2])))
        optimizer.step()
    return seen


def test_every_step_is_measured_also_when_the_loop_only_repeats() -> None:
    batches = torch.randn(60, 16, 4)
    expected = train(batches, look=True)

    with watch(norms=True, on_finding="record") as watched:
        train(batches, look=False)

    found = measured(watched)
    assert any(isinstance(event, Again) for event in watched.tape)
    assert [one.step for one in found] == list(range(1, 61))
    assert [(one.loss, *one.norms) for one in found] == [pytest.approx(one) for one in expected]
    assert [layer.rpartition(".")[2] for layer in found[0].layers] == ["0", "2"]


def test_the_loss_of_a_window_is_the_sum_of_what_it_spends() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sums = []

    with watch(optimizer, norms=True, on_finding="record") as watched:
        for window in torch.randn(8, 4, 16, 4):
            total = 0.0
            for x in window:
                loss = model(x).square().mean() / 4
                loss.backward()
                total += loss.item()
            before = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            sums.append((total, before.item()))
            optimizer.step()
            optimizer.zero_grad()

    found = measured(watched)
    assert [(one.loss, one.unclipped) for one in found] == [pytest.approx(pair) for pair in sums]
    assert all(one.norm == pytest.approx(0.01, rel=1e-3) for one in found)


def test_a_loss_thrown_away_is_not_part_of_it() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []

    with watch(optimizer, norms=True, on_finding="record") as watched:
        for x in torch.randn(5, 16, 4):
            model(x).mean().backward()
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            kept.append(loss.item())
            optimizer.step()

    assert [one.loss for one in measured(watched)][1:] == pytest.approx(kept[1:])


def test_a_scalers_factor_is_taken_out() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    losses = []

    with watch(optimizer, norms=True, on_finding="record") as watched:
        for x in torch.randn(5, 16, 4):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            losses.append(loss.item())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    assert [one.loss for one in measured(watched)] == pytest.approx(losses)


def test_nothing_is_measured_unless_asked_for() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    with watch(optimizer, on_finding="record") as watched:
        model(torch.randn(2, 4)).mean().backward()
        optimizer.step()

    assert measured(watched) == []
