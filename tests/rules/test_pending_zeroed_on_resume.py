from gradkeeper.rules.pending_zeroed_on_resume import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
model.load_state_dict(saved)
p.grad = saved["grads"]
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def told(kind: str) -> Script:
    """The example up to the place where pending gradients are back."""
    script = over_model(block(rule, kind))
    script.backward("model(batches[0])", accounts=("model",), **mean(over=2))
    script.save("torch.save(", accounts=("model",), gradients=True)
    script.restore("model.load_state_dict(", accounts=("model",))
    script.restore('p.grad = saved["grads"]', accounts=("model",), gradients=True)
    return script


def resumed() -> Script:
    script = over_model(Script(LOOP))
    script.restore("load_state_dict", accounts=("model",))
    script.restore("p.grad =", accounts=("model",), gradients=True)
    return script


def test_a_zero_at_the_top_of_a_resumed_window_is_reported() -> None:
    script = told("bad")
    script.clear()
    script.backward("model(batches[1])", accounts=("model",), **mean(over=2))
    script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK402:14"]


def test_a_window_that_goes_on_where_it_was_left_is_silent() -> None:
    script = told("good")
    script.backward("model(batches[1])", accounts=("model",), **mean(over=2))
    script.spend()
    script.clear()
    script.close()

    assert script.findings() == []


def test_the_finding_names_where_they_came_back() -> None:
    script = resumed()
    script.train(3)
    script.close()

    (finding,) = script.findings()

    assert finding.site.line == 6
    assert finding.count == 1
    assert (
        finding.message
        == "clears the gradients that line 4 restored, before any step() has applied them"
    )
    assert finding.detail == "account `model`: restored on 4, zeroed on 6, never spent"
    assert finding.remedy == "zero_grad() after the first step(), not before it"
    assert reasons(finding) == [(4, "pending gradients come back here")]


def test_gradients_that_come_back_into_several_accounts_are_one_fault() -> None:
    script = Script(LOOP)
    script.build("trunk", "head")
    for account in ("trunk", "head"):
        script.restore("p.grad =", accounts=(account,), gradients=True)
    script.train(3)
    script.close()

    assert script.alarms() == ["GK402:6"]


def test_restored_gradients_spent_at_once_are_silent() -> None:
    script = resumed()
    script.spend()
    script.clear()
    script.train(3)
    script.close()

    assert script.findings() == []


def test_a_zero_before_they_come_back_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    script.restore("load_state_dict", accounts=("model",))
    script.restore("p.grad =", accounts=("model",), gradients=True)
    script.window(1)
    script.close()

    assert script.findings() == []


def test_a_resume_without_pending_gradients_may_zero() -> None:
    script = over_model(Script(LOOP))
    script.restore("load_state_dict", accounts=("model",))
    script.train(3)
    script.close()

    assert script.findings() == []


def test_restored_gradients_that_another_optimizer_spent_may_be_zeroed() -> None:
    script = Script(LOOP)
    script.build("generator")
    script.adopt("import", optimizer="other", accounts=("critic",))
    script.restore("p.grad =", accounts=("generator", "critic"), gradients=True)
    script.spend()
    script.zero("optimizer.zero_grad()", accounts=("generator", "critic"))

    assert script.findings() == []
