"""Faults that are famous, as people write them, and the right programs that look like them."""

from pathlib import Path

import pytest

from tests.watcher.loops import run

REPLACED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 4)
            self.classifier = nn.Linear(4, 3)

        def forward(self, x):
            return self.classifier(self.body(x))

    def train(steps):
        for _ in range(steps):
            x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(70)
    model.classifier = nn.Linear(4, 3)
    train(4)
    """

INNER = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter([(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(100)])
    for update in range(25):
        optimizer.zero_grad()
        for _ in range(4):
            x, y = next(batches)
            loss = F.mse_loss(model(x), y)
            loss.backward()
        optimizer.step()
    """

MASKED = """
    model = nn.Linear(4, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for update in range(12):
        optimizer.zero_grad()
        for k in range(3):
            x, y = torch.randn(8, 4), torch.randint(0, 5, (8,))
            y[: 2 * k] = -100
            loss = F.cross_entropy(model(x), y, ignore_index=-100) / 3
            loss.backward()
        optimizer.step()
    """

TIME_STEPS = """
    cell, out = nn.RNNCell(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.01)
    for update in range(20):
        state = torch.zeros(8, 4)
        optimizer.zero_grad()
        for _ in range(5):
            state = cell(torch.randn(8, 4), state.detach())
            F.mse_loss(out(state), torch.randn(8, 1)).backward()
        optimizer.step()
    """

PARTS_OF_ONE = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for update in range(20):
        batch = torch.randn(5, 8, 4)
        optimizer.zero_grad()
        for t in range(5):
            model(batch[t]).square().mean().backward()
        optimizer.step()
    """

TASKS = """
    trunk, heads = nn.Linear(4, 4), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.01)
    for update in range(20):
        optimizer.zero_grad()
        for head in heads:
            x, y = torch.randn(8, 4), torch.randn(8, 1)
            F.mse_loss(head(trunk(x)), y).backward()
        optimizer.step()
    """


def scaled(code: str) -> str:
    """The same loop under a GradScaler, whose factor all losses share."""
    code = code.replace(
        "    optimizer =", "    scaler = torch.amp.GradScaler('cpu')\n    optimizer ="
    )
    for loss in ("loss", "model(batch[t]).square().mean()"):
        code = code.replace(f"{loss}.backward()", f"scaler.scale({loss}).backward()")
    return code.replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")


NOT_UPDATED = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    for x in torch.randn(6, 8, 4):
        optimizer.zero_grad()
        scaler.scale(model(x).square().mean()).backward()
        try:
            scaler.unscale_(optimizer)
        except RuntimeError:
            break
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
    """

IN_BACKWARD = """
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizers = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}

    def apply(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for one in model.parameters():
        one.register_post_accumulate_grad_hook(apply)
    for x in torch.randn(30, 8, 4):
        loss = model(x).square().mean() / 4
        loss.backward()
    """


@pytest.mark.parametrize(
    ("code", "rule", "line"),
    [
        pytest.param(REPLACED, "GK105", "optimizer.step()", id="a head replaced in mid-run"),
        pytest.param(INNER, "GK201", "optimizer.step()", id="next() in an inner loop"),
        pytest.param(scaled(INNER), "GK201", "scaler.step(", id="the same under a scaler"),
        pytest.param(MASKED, "GK204", "optimizer.step()", id="masked items in an inner loop"),
        pytest.param(IN_BACKWARD, "GK202", ".step()", id="stepped in backward, and divided"),
        pytest.param(NOT_UPDATED, "GK303", ".unscale_(", id="unscaled again without an update"),
    ],
)
def test_a_famous_fault_is_found_at_its_line(
    code: str, rule: str, line: str, tmp_path: Path
) -> None:
    loop = run(tmp_path, code)

    assert loop.found == [f"{rule}:{loop.line(line)}"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            scaled(INNER.replace("model(x), y)", "model(x), y) / 4")),
            id="next() in an inner loop under a scaler, and divided",
        ),
        pytest.param(scaled(PARTS_OF_ONE), id="time steps of one batch under a scaler"),
        pytest.param(
            REPLACED.replace(
                "    train(4)",
                "    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n    train(4)",
            ),
            id="a head replaced, and the optimizer built anew",
        ),
        pytest.param(INNER.replace("(x), y)", "(x), y) / 4"), id="next(), and divided"),
        pytest.param(MASKED.replace("2 * k", "2"), id="as many masked items in each"),
        pytest.param(TIME_STEPS, id="time steps with a state"),
        pytest.param(PARTS_OF_ONE, id="parts of one batch"),
        pytest.param(TASKS, id="tasks, each with a head and data of its own"),
        pytest.param(IN_BACKWARD.replace(" / 4", ""), id="stepped in backward"),
        pytest.param(
            NOT_UPDATED.replace("step(optimizer)", "step(optimizer); scaler.update()"),
            id="unscaled once for each update",
        ),
        pytest.param(
            NOT_UPDATED.replace("step(optimizer)", "step(optimizer); scaler.update()").replace(
                "        nn.utils",
                "        try:\n"
                "            scaler.unscale_(optimizer)\n"
                "        except RuntimeError:\n"
                "            pass\n"
                "        nn.utils",
            ),
            id="unscaled twice for one step, which torch refuses",
        ),
        pytest.param(IN_BACKWARD.replace(" / 4", " / 2"), id="stepped in backward, and halved"),
    ],
)
def test_a_right_program_that_looks_like_one_is_silent(code: str, tmp_path: Path) -> None:
    assert run(tmp_path, code).found == []


def test_the_replaced_head_is_named(tmp_path: Path) -> None:
    (finding,) = run(tmp_path, REPLACED).watch.findings

    assert finding.message == "step() leaves `model.classifier` as it was: no optimizer owns it"
