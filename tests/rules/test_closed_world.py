"""Rules that argue from absence are silent about what went to code that was not seen."""

from collections.abc import Callable
from typing import Any

import pytest

from gradkeeper.rules import ALL
from tests.script import Script

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    helper(model, optimizer)
    optimizer.zero_grad()
    model.zero_grad()
    loss.backward()
    torch.save(state, "last.pt")
    optimizer.step()
"""

Escape = Callable[[Script], None]
Run = Callable[[Escape, bool], Script]


def begun(escape: Escape, *accounts: str) -> Script:
    script = Script(LOOP)
    script.build(*accounts)
    escape(script)
    return script


def steps_on_nothing(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    script.train(3, "a copy of model", unseen=unseen)
    return script


def steps_on_nothing_beside_another(escape: Escape, unseen: bool) -> Script:
    script = steps_on_nothing(escape, unseen)
    script.move("loss.backward()", accounts=("a copy of model",), gradient=True)
    return script


def leaves_a_decoder_behind(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    script.train(3, "model", "decoder", unseen=unseen)
    return script


def owns_what_no_loss_reaches(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model", "decoder")
    script.train(3, "model", unseen=unseen)
    return script


def never_steps(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    for _ in range(4):
        script.fresh_batch(unseen=unseen)
    return script


def runs_in_float16(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    script.train(3, autocast="float16", unseen=unseen)
    return script


def saves_before_the_step(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    for _ in range(3):
        script.fresh_batch(unseen=unseen)
        script.save("torch.save", accounts=("model",), optimizers=("optimizer",))
        script.spend()
    return script


def saves_and_ends(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model")
    script.fresh_batch(unseen=unseen)
    script.save("torch.save", accounts=("model",), optimizers=("optimizer",))
    return script


def zeroes_only_the_model(escape: Escape, unseen: bool) -> Script:
    script = begun(escape, "model", "decoder")
    for _ in range(3):
        script.fetch()
        script.zero("model.zero_grad()", accounts=("model",))
        script.credit(unseen=unseen)
        script.spend()
    return script


RUNS: dict[str, tuple[str, Run]] = {
    "empty-step": ("GK103", steps_on_nothing),
    "empty-step-at-the-end": ("GK103", steps_on_nothing_beside_another),
    "orphan-parameter": ("GK105", leaves_a_decoder_behind),
    "starved-parameter": ("GK106", owns_what_no_loss_reaches),
    "never-stepped": ("GK107", never_steps),
    "fp16-without-scaler": ("GK307", runs_in_float16),
    "pending-not-saved": ("GK401", saves_before_the_step),
    "pending-not-saved-at-the-end": ("GK401", saves_and_ends),
    "zero-scope-mismatch": ("GK602", zeroes_only_the_model),
}
THE_LOSS_MATTERS = {"GK103", "GK106", "GK307"}
"""What a loss may have reached, or by what it was multiplied, is a part of their argument."""


def nothing(script: Script) -> None: ...


def gone(**what: Any) -> Escape:
    return lambda script: script.escape("helper(", **what)


def told(run: Run, escape: Escape = nothing, *, unseen: bool = False) -> set[str]:
    script = run(escape, unseen)
    script.close()
    return {finding.rule for finding in script.findings()}


each_run = pytest.mark.parametrize(("code", "run"), RUNS.values(), ids=RUNS.keys())


def test_they_are_the_rules_that_argue_from_absence() -> None:
    codes = {code for code, _ in RUNS.values()}

    assert codes == {"GK103", "GK105", "GK106", "GK107", "GK307", "GK401", "GK602"}
    assert codes <= {rule.code for rule in ALL}


@each_run
def test_in_a_closed_world_the_rule_speaks(code: str, run: Run) -> None:
    assert code in told(run)


@each_run
def test_it_is_silent_about_an_optimizer_that_was_handed_away(code: str, run: Run) -> None:
    assert code not in told(run, gone(optimizers=("optimizer",)))


@each_run
def test_it_is_silent_about_parameters_that_were_handed_away(code: str, run: Run) -> None:
    assert code not in told(run, gone(accounts=("model", "decoder")))


@each_run
def test_it_is_silent_where_everything_may_have_been_handed_away(code: str, run: Run) -> None:
    assert code not in told(run, gone(everything=True))


@each_run
def test_it_goes_on_speaking_of_what_others_handed_away(code: str, run: Run) -> None:
    assert code in told(run, gone(optimizers=("another",), accounts=("another model",)))


@each_run
def test_a_loss_that_was_not_seen_whole_silences_what_depends_on_it(code: str, run: Run) -> None:
    assert (code in told(run, unseen=True)) == (code not in THE_LOSS_MATTERS)


@pytest.mark.parametrize("waits", [True, False])
def test_a_call_that_is_over_may_have_stepped_what_waited_then(waits: bool) -> None:
    script = Script(LOOP)
    script.build("model")
    for _ in range(4):
        if not waits:
            script.zero("optimizer.zero_grad()", accounts=("model",))
            script.escape("helper(", everything=True, passing=True)
        script.fresh_batch()
        if waits:
            script.escape("helper(", everything=True, passing=True)
    script.close()

    assert {finding.rule for finding in script.findings()} == (set() if waits else {"GK107"})


def test_what_is_named_later_went_too_where_everything_may_have() -> None:
    script = Script(LOOP)
    script.escape("helper(", everything=True)
    script.build("model", "decoder")
    script.train(3, "model")
    script.close()

    assert script.findings() == []
