"""The listings that articles on zero_grad show, right and wrong, rewritten: named or silent."""

from tests.lint.linting import HEAD, loop, possible, told

STEP = "F.mse_loss(model(x), y).backward()\noptimizer.step()\n"


def test_the_five_line_loop_is_clean() -> None:
    body = (
        "optimizer.zero_grad()\nloss = F.mse_loss(model(x), y)\nloss.backward()\noptimizer.step()"
    )

    assert told(loop(body, over="for x, y in loader:")) == []


def test_zeroing_between_forward_and_backward_is_equal_and_clean() -> None:
    body = (
        "loss = F.mse_loss(model(x), y)\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    )

    assert told(loop(body, over="for x, y in loader:")) == []


def test_zeroing_after_the_step_is_clean() -> None:
    assert told(loop(STEP + "optimizer.zero_grad()", over="for x, y in loader:")) == []


def test_a_missing_zero_is_a_stale_gradient() -> None:
    assert told(loop(STEP, over="for x, y in loader:")) == ["GK101"]


def test_zeroing_between_backward_and_step_discards_the_gradient() -> None:
    body = "F.mse_loss(model(x), y).backward()\noptimizer.zero_grad()\noptimizer.step()"

    assert told(loop(body, over="for x, y in loader:")) == ["GK102"]


def test_accumulation_without_a_tail_flush_is_at_most_possible() -> None:
    code = loop(
        """
        (F.mse_loss(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    assert told(code) == []
    assert "GK203" in possible(code)


def test_zeroing_where_the_window_begins_is_clean() -> None:
    code = loop(
        """
        if i % 4 == 0:
            optimizer.zero_grad()
        (F.mse_loss(model(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    assert told(code) == []


def test_a_step_guarded_by_a_counter_from_zero_makes_a_first_window_of_one() -> None:
    code = loop(
        """
        (F.mse_loss(model(x), y) / 4).backward()
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        """,
        over="for i, (x, y) in enumerate(loader):",
    )

    assert "GK202" in told(code)


MANUAL = "w = torch.zeros(4, requires_grad=True)\n"


def test_manual_updates_with_a_check_for_none_are_clean() -> None:
    code = loop(
        """
        if w.grad is not None:
            w.grad.zero_()
        (x @ w).square().mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        """,
        head="import torch\n" + MANUAL,
    )

    assert told(code) == []


def test_manual_zeroing_without_a_check_fails_on_the_first_pass() -> None:
    code = loop(
        """
        w.grad.zero_()
        (x @ w).square().mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        """,
        head="import torch\n" + MANUAL,
    )

    assert told(code) == ["GK601"]


def test_manual_updates_that_never_zero_spend_again() -> None:
    code = loop(
        """
        (x @ w).square().mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        """,
        head="import torch\n" + MANUAL,
    )

    assert told(code) == ["GK101"]


def test_resuming_after_a_completed_step_is_clean() -> None:
    load = "state = torch.load('a.pt')\nmodel.load_state_dict(state['model'])\n"
    body = "optimizer.zero_grad()\n" + STEP

    assert told(loop(body, over="for x, y in loader:", head=HEAD + load)) == []


def test_a_step_right_after_loading_has_nothing_to_spend() -> None:
    load = "model.load_state_dict(torch.load('a.pt'))\noptimizer.step()\n"
    body = "optimizer.zero_grad()\n" + STEP

    assert told(loop(body, over="for x, y in loader:", head=HEAD + load)) == ["GK103"]


def test_saving_between_backward_and_step_loses_the_pending_gradient() -> None:
    code = loop(
        """
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, "a.pt")
        optimizer.step()
        """,
        over="for x, y in loader:",
    )

    assert told(code) == ["GK401"]
