from gradkeeper.rules.empty_step import rule
from tests.script import Script, block, marked, mean, over_model, reasons

LOOP = """\
import torch
optimizer = SGD(model)
head_opt = SGD(head)
model.load_state_dict(torch.load("last.pt"))
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    head_opt.step()
    p -= 0.1 * p.grad
"""


def two_optimizers() -> Script:
    script = over_model(Script(LOOP))
    script.build("head", optimizer="head_opt")
    return script


def resumed() -> Script:
    script = over_model(Script(LOOP))
    script.restore("load_state_dict", accounts=("model",))
    return script


def test_an_optimizer_over_a_copy_is_reported_at_its_step() -> None:
    script = block(rule, "bad")
    script.build("copy")
    script.train(6, "model", **mean())
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK103:11"]


def test_an_optimizer_over_the_model_is_silent() -> None:
    script = over_model(block(rule, "good"))
    script.train(6, **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_counts_the_steps_and_names_where_the_optimizer_was_built() -> None:
    script = Script(LOOP)
    script.build("copy")
    script.train(2, "model")

    (finding,) = script.findings()

    assert (
        finding.message
        == "step() has nothing to apply: no gradient has reached the parameters of `optimizer`"
    )
    assert finding.detail == "account `optimizer`: built on 2, stepped on 8, never credited"
    assert (
        finding.remedy == "build the optimizer over the parameters that the loss is computed from"
    )
    assert reasons(finding) == [(2, "`optimizer` was built here")]


def test_an_optimizer_that_starves_beside_a_working_one_is_reported_at_the_close() -> None:
    script = two_optimizers()
    for _ in range(4):
        script.train(1)
        script.spend("head_opt")

    before = script.lines_of(rule)
    script.close()

    assert before == []
    assert script.lines_of(rule) == [9]


def test_a_step_right_after_a_load_finds_nothing_and_is_told_why() -> None:
    script = resumed()
    script.spend()
    script.clear()
    script.train(3)
    script.close()

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.message == "step() has nothing to apply: what line 4 loaded holds no gradients"
    assert finding.detail == "account `optimizer`: loaded on 4, no backward since"
    assert finding.remedy == "save the pending gradients on purpose, or save after step()"
    assert reasons(finding) == [(4, "state_dict() does not hold .grad")]


def test_a_backward_between_load_and_step_is_silent() -> None:
    script = resumed()
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_an_empty_step_before_the_loop_to_quiet_the_scheduler_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.clear()
    script.spend()
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_an_empty_step_on_purpose_after_a_load_is_silent() -> None:
    script = resumed()
    script.clear()
    script.spend()
    script.train(3)
    script.close()

    assert script.alarms() == []


def test_a_head_that_most_batches_leave_alone_is_silent() -> None:
    script = two_optimizers()
    for i in range(6):
        script.fetch()
        script.zero("zero_grad", accounts=("model", "head"))
        script.credit("model", *(["head"] if i == 5 else []))
        script.spend("head_opt")
        script.spend()
    script.close()

    assert script.alarms() == []


def test_an_optimizer_whose_work_is_done_inside_backward_is_silent() -> None:
    script = over_model(Script(LOOP))
    script.adopt("head_opt =", optimizer="hook", accounts=("model",))
    for _ in range(4):
        script.micro_batch()
        script.step("loss.backward()", optimizer="hook")
        script.zero("loss.backward()", accounts=("model",))
        script.spend()
    script.close()

    assert script.alarms() == []


def test_weights_that_are_moved_by_hand_need_no_gradient_at_the_step() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.fetch()
        script.move("p -=", accounts=("model",))
        script.spend()
    script.close()

    assert script.alarms() == []


def test_steps_that_find_nothing_because_it_was_zeroed_belong_to_another_rule() -> None:
    script = over_model(Script(LOOP))
    for _ in range(4):
        script.micro_batch()
        script.clear()
        script.spend()
    script.close()

    assert script.lines_of(rule) == []


def test_a_closure_whose_gradients_are_zeroed_before_its_step_is_told_where() -> None:
    script = over_model(Script(LOOP))
    for _ in range(2):
        script.fetch()
        script.credit("model", within="optimizer")
        script.zero("zero_grad", accounts=("model",), within="optimizer")
        script.spend()

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.message == "step() has nothing to apply: line 6 zeroes the gradients first"
    assert finding.remedy == "zero_grad() before backward(), not between backward() and step()"
    assert reasons(finding) == [(6, "the gradients are zeroed here")]


def test_steps_that_only_find_old_gradients_are_not_empty() -> None:
    script = over_model(Script(LOOP))
    script.train(1)
    script.spend()
    script.spend()

    assert script.lines_of(rule) == []


def test_a_first_step_that_the_scaler_refused_is_not_empty() -> None:
    script = over_model(Script(LOOP))
    script.train_scaled(1, taken=False)
    script.train_scaled(2)
    script.close()

    assert script.alarms() == []


def test_two_empty_steps_beside_a_working_optimizer_are_enough_and_one_is_not() -> None:
    once, twice = two_optimizers(), two_optimizers()
    for script, steps in ((once, 1), (twice, 2)):
        script.train(2)
        for _ in range(steps):
            script.spend("head_opt")
        script.close()

    assert once.lines_of(rule) == []
    assert twice.lines_of(rule) == [9]


def test_steps_that_the_scaler_refused_are_not_counted_as_empty_at_the_close() -> None:
    script = two_optimizers()
    for taken in (False, True, True):
        script.train(1)
        script.spend("head_opt", scaler="scaler", taken=taken)
        script.update("head_opt.step()", scaler="scaler")
    script.close()

    assert script.lines_of(rule) == []


BUILT_BY_ONE_LINE = """\
optimizers = [SGD(part) for part in (model, head)]
for x in loader:
    loss.backward()
    optimizer.step()
    head_opt.step()
    optimizer.zero_grad()
"""


def one_line(optimizer: str, account: str, script: Script) -> None:
    script.adopt("optimizers =", optimizer=optimizer, accounts=(account,))


def rounds_in_which_only_the_model_is_credited(script: Script, *optimizers: str) -> None:
    for _ in range(3):
        script.micro_batch("model")
        for optimizer in optimizers:
            script.spend(optimizer)
        script.zero("zero_grad", accounts=("model",))


def test_of_optimizers_that_one_line_builds_in_a_row_each_is_meant_to_step() -> None:
    script = Script(BUILT_BY_ONE_LINE)
    one_line("optimizer", "model", script)
    one_line("head_opt", "head", script)
    rounds_in_which_only_the_model_is_credited(script, "optimizer", "head_opt")
    script.close()

    assert script.lines_of(rule) == [5]


def test_a_line_that_builds_one_optimizer_after_another_works_if_one_of_them_does() -> None:
    script = Script(BUILT_BY_ONE_LINE)
    one_line("optimizer", "model", script)
    rounds_in_which_only_the_model_is_credited(script, "optimizer")
    one_line("head_opt", "head", script)
    rounds_in_which_only_the_model_is_credited(script, "optimizer", "head_opt")
    script.close()

    assert script.lines_of(rule) == []
