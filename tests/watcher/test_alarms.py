"""Loops with a fault that only running them shows, or that hide it well: reported at the line."""

from pathlib import Path

import pytest

from tests.watcher.loops import run

FAULTS = {
    "zeroed through another model": """
        model, other = nn.Linear(4, 1), nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            other.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()  # GK101
        """,
    "stepped twice": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.step()  # GK101
        """,
    "by hand, never zeroed": """
        w = torch.randn(4, 1, requires_grad=True)
        for x in torch.randn(12, 8, 4):
            (x @ w).square().mean().backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
        """,
    "zeroed between backward and step": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.zero_grad()  # GK102
            optimizer.step()
        """,
    "set to None between backward and step": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            loss = model(x).square().mean()
            loss.backward()
            for p in model.parameters():
                p.grad = None  # GK102
            optimizer.step()
        """,
    "zeroed by hand on every batch of a window": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, x in enumerate(torch.randn(60, 8, 4)):
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.zero_()  # GK102
            loss = model(x).square().mean() / 2
            loss.backward()
            if (i + 1) % 2 == 0:
                optimizer.step()
        """,
    "no zero with a fused optimizer": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
        for x in torch.randn(30, 8, 4):
            model(x).square().mean().backward()
            optimizer.step()  # GK101
        """,
    "no zero, from the fiftieth step on": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for i, x in enumerate(torch.randn(60, 8, 4)):
            if i < 50:
                optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()  # GK101
        """,
    "a head swapped after the optimizer was built": """
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model[1] = nn.Linear(4, 2)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()  # GK105
        """,
    "clipped before unscaling": """
        from torch.nn.utils import clip_grad_norm_

        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            clip_grad_norm_(model.parameters(), 1.0)  # GK301
            scaler.step(optimizer)
            scaler.update()
        """,
    "a scaler that nobody updates": """
        import contextlib

        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        with contextlib.suppress(RuntimeError):  # torch refuses
            for x in torch.randn(6, 8, 4):
                optimizer.zero_grad()
                scaler.scale(model(x).square().mean()).backward()
                scaler.step(optimizer)  # GK303
        """,
    "clipped before the first backward, and with another loss's leftovers later on": """
        first, second = nn.Linear(4, 4), nn.Linear(4, 1)
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        other = torch.optim.SGD(second.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            loss = second(first(x)).square().mean()
            nn.utils.clip_grad_norm_(first.parameters(), 1.0)  # GK304
            loss.backward()
            one.step()
            one.zero_grad()
            other.zero_grad()
            second(first(x)).abs().mean().backward()
            other.step()
        """,
    "a closure that LBFGS evaluates many times, zeroed before the step only": """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()

            def closure():
                loss = model(x).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)  # GK101
        """,
    "a learned temperature that nobody zeroes": """
        model = nn.Linear(4, 1)
        temperature = nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([*model.parameters(), temperature], lr=0.1)
        for x in torch.randn(6, 8, 4):
            model.zero_grad()
            (model(x) * temperature).square().mean().backward()
            optimizer.step()  # GK602
        """,
}
BY_HAND = "by hand, never zeroed"


@pytest.mark.parametrize("name", [name for name in FAULTS if name != BY_HAND])
def test_a_fault_is_reported_at_its_line(name: str, tmp_path: Path) -> None:
    loop = run(tmp_path, FAULTS[name])

    lines = loop.path.read_text().splitlines()
    marked = [f"{line.split('# ')[1]}:{n}" for n, line in enumerate(lines, 1) if "# GK" in line]
    assert loop.found == marked


def test_weights_moved_by_hand_along_a_gradient_that_is_never_zeroed(tmp_path: Path) -> None:
    loop = run(tmp_path, FAULTS[BY_HAND])

    assert [one.rule for one in loop.watch.findings] == ["GK101"]


def test_the_article_s_numbers_are_what_the_second_step_sees(tmp_path: Path) -> None:
    """Gradients {-0.1, 0.2, -0.05}, then {0.05, -0.1, 0.1}, never zeroed."""
    loop = run(
        tmp_path,
        """
        w = nn.Parameter(torch.zeros(3))
        optimizer = torch.optim.SGD([w], lr=1.0)
        for g in ([-0.1, 0.2, -0.05], [0.05, -0.1, 0.1]):
            (w * torch.tensor(g)).sum().backward()
            seen = w.grad.tolist()
            optimizer.step()
        """,
    )

    assert loop.variables["seen"] == pytest.approx([-0.05, 0.1, 0.05])
    assert [one.rule for one in loop.watch.findings] == ["GK101"]
