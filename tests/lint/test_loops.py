"""How long a loop is rehearsed, and that its end is not taken for the program's."""

from tests.lint.linting import HEAD, told

RUNNING = """
data = [torch.randn(8, 4) for _ in range(10)]
count = 0
for epoch in range({epochs}):
    for x in data:
        count += 1
        (F.mse_loss(model(x), x) / 6).backward()
        if count % 6 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
COUNTED = """
step = 0
while step < {steps}:
    (F.mse_loss(model(x), y) / 4).backward()
    step += 1
    if step % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_a_window_that_runs_across_epochs_ends_where_the_last_epoch_does() -> None:
    assert told(HEAD + RUNNING.format(epochs=3)) == []
    assert told(HEAD + RUNNING.format(epochs=30)) == []
    assert told(HEAD + RUNNING.format(epochs=4)) == ["GK203"]


def test_a_tail_that_hangs_on_the_number_of_epochs_is_not_certain() -> None:
    assert told(HEAD + RUNNING.format(epochs="args.epochs")) == []


def test_a_tail_that_each_epoch_leaves_is_certain_for_any_number_of_epochs() -> None:
    code = HEAD + RUNNING.format(epochs="args.epochs").replace(
        "    for x in", "    count = 0\n    for x in"
    )

    assert told(code) == ["GK202"]


def test_a_while_loop_that_counts_is_run_to_its_end() -> None:
    assert told(HEAD + COUNTED.format(steps=24)) == []
    assert told(HEAD + COUNTED.format(steps=26)) == ["GK203"]


def test_a_while_loop_too_long_to_run_leaves_no_tail_where_we_stop() -> None:
    code = HEAD + COUNTED.format(steps=1000).replace("step % 4", "(step + 2) % 4")

    assert "GK203" not in told(code)


def test_losses_of_one_batch_are_no_window_however_they_are_iterated() -> None:
    for header in (
        "for out in outs:",
        "for k, out in enumerate(outs):",
        "for out, h in zip(outs, y):",
    ):
        code = f"""{HEAD}
for x, y in loader:
    optimizer.zero_grad()
    outs = [model(x), model(x * 2), model(x * 3)]
    {header}
        F.mse_loss(out, x).backward(retain_graph=True)
    optimizer.step()
"""

        assert told(code) == []
