import pytest

from gradkeeper.rules.foreign_gradient import rule
from tests.script import Script, block, marked, mean, reasons

LOOP = """\
import torch
actor_opt = SGD(actor)
critic_opt = SGD(critic)
for x in loader:
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
"""

BOTH = ("actor", "critic")


def built(script: Script) -> Script:
    script.build("actor", optimizer="actor_opt")
    script.build("critic", optimizer="critic_opt")
    return script


def critic_turn(script: Script) -> None:
    script.backward("critic_loss.backward()", accounts=("critic",), **mean())
    script.spend("critic_opt")


def actor_turn(script: Script, *, reaches: tuple[str, ...] = BOTH) -> None:
    script.backward("actor_loss.backward()", accounts=reaches, **mean())
    script.spend("actor_opt")


def test_a_critic_zeroed_only_after_its_own_step_is_reported() -> None:
    script = built(block(rule, "bad"))
    for _ in range(6):
        script.fetch()
        critic_turn(script)
        script.clear("critic_opt")
        actor_turn(script)
        script.clear("actor_opt")
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK104:9"]


def test_each_network_zeroed_right_before_its_own_backward_is_silent() -> None:
    script = built(block(rule, "good"))
    for _ in range(6):
        script.fetch()
        script.clear("critic_opt")
        critic_turn(script)
        script.clear("actor_opt")
        actor_turn(script)
    script.close()

    assert script.findings() == []


def test_the_finding_names_both_losses_and_who_settled_the_other() -> None:
    script = built(Script(LOOP))
    for _ in range(2):
        script.fetch()
        critic_turn(script)
        script.clear("critic_opt")
        actor_turn(script)
        script.clear("actor_opt")

    (finding,) = script.findings()

    assert (
        finding.message
        == "step() also applies the gradient of line 9, left over from the loss of `actor_opt`"
    )
    assert finding.detail == (
        "account `critic_opt`: credited on 9 beside its own loss of 6, not zeroed in between"
    )
    assert finding.remedy == "critic_opt.zero_grad() right before backward() on line 6"
    assert reasons(finding) == [
        (9, "also fills the gradients of `critic_opt`"),
        (6, "its own loss, added on top"),
    ]


def test_leftovers_settled_earlier_in_the_same_batch_are_reported() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.clear("critic_opt")
        actor_turn(script)
        script.clear("actor_opt")
        critic_turn(script)
    script.close()

    assert script.alarms() == ["GK104:7"]


def test_leftovers_of_the_batch_before_are_reported_though_nobody_zeroed_them_yet() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        critic_turn(script)
        script.clear("critic_opt")
        script.clear("actor_opt")
        actor_turn(script)
    script.close()

    assert script.alarms() == ["GK104:7"]


def test_a_generator_that_is_not_detached_in_the_critics_loss_is_reported() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.clear("critic_opt")
        script.backward("critic_loss.backward()", accounts=BOTH)
        script.spend("critic_opt")
        script.clear("critic_opt")
        actor_turn(script)
        script.clear("actor_opt")
    script.close()

    assert script.alarms() == ["GK104:10"]


def test_a_critic_frozen_during_the_actors_turn_is_silent() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        critic_turn(script)
        script.clear("critic_opt")
        actor_turn(script, reaches=("actor",))
        script.clear("actor_opt")
    script.close()

    assert script.alarms() == []


def test_several_critic_rounds_for_one_of_the_actor_are_silent() -> None:
    script = built(Script(LOOP))
    for i in range(10):
        script.fetch()
        script.clear("critic_opt")
        critic_turn(script)
        if i % 5 == 4:
            script.clear("actor_opt")
            actor_turn(script)
    script.close()

    assert script.alarms() == []


def test_real_and_fake_halves_of_the_critics_loss_are_its_own() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.clear("critic_opt")
        script.backward("actor_opt.zero_grad()", accounts=("critic",))
        critic_turn(script)
        script.clear("actor_opt")
        actor_turn(script)
    script.close()

    assert script.alarms() == []


def test_one_loss_for_two_optimizers_is_silent() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=BOTH)
        script.backward("actor_loss.backward()", accounts=BOTH)
        script.spend("actor_opt")
        script.spend("critic_opt")
    script.close()

    assert script.alarms() == []


def test_one_loss_for_two_optimizers_at_different_rhythms_is_silent() -> None:
    script = built(Script(LOOP))
    for i in range(9):
        script.fetch()
        script.backward("actor_loss.backward()", accounts=BOTH)
        if i % 3 == 2:
            script.spend("critic_opt")
            script.clear("critic_opt")
        script.spend("actor_opt")
        script.clear("actor_opt")
    script.close()

    assert script.alarms() == []


def test_two_losses_of_one_batch_that_are_both_meant_for_a_generator_are_silent() -> None:
    """Bicycle-GAN: the encoder steps first, on the first loss only."""
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=BOTH)
        script.backward("critic_loss.backward()", accounts=BOTH)
        script.backward("actor_loss.backward()", accounts=("actor",))
        script.spend("critic_opt")
        script.spend("actor_opt")
    script.close()

    assert script.alarms() == []


def test_leftovers_of_the_same_batch_are_reported_though_everything_was_zeroed_at_its_top() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=BOTH)
        actor_turn(script)
        critic_turn(script)
    script.close()

    assert script.alarms() == ["GK104:7"]


def test_a_second_loss_that_reaches_both_may_be_meant_for_the_sum() -> None:
    """Bicycle-GAN again: the encoder has stepped, and the second loss runs through it."""
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=BOTH)
        script.backward("critic_loss.backward()", accounts=BOTH)
        script.spend("critic_opt")
        script.backward("actor_loss.backward()", accounts=BOTH)
        script.spend("actor_opt")
    script.close()

    assert script.alarms() == []


@pytest.mark.parametrize("zeroed", [True, False])
def test_a_trunk_that_trains_with_two_heads_is_silent(zeroed: bool) -> None:
    script = Script(LOOP)
    script.build("trunk", "actor", optimizer="actor_opt")
    script.build("critic", optimizer="critic_opt")
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=("trunk", "actor", "critic"))
        script.backward("critic_loss.backward()", accounts=("trunk", "critic"))
        script.spend("critic_opt")
        if zeroed:
            script.clear("critic_opt")
        script.backward("actor_loss.backward()", accounts=("trunk", "actor"))
        script.spend("actor_opt")
    script.close()

    assert script.alarms() == []


def test_a_trunk_that_trains_with_two_heads_over_a_window_is_silent() -> None:
    script = Script(LOOP)
    script.build("trunk", "actor", optimizer="actor_opt")
    script.build("critic", optimizer="critic_opt")
    for i in range(8):
        script.fetch()
        script.backward("critic_loss.backward()", accounts=("trunk", "critic"))
        script.spend("critic_opt")
        script.clear("critic_opt")
        script.backward("actor_loss.backward()", accounts=("trunk", "actor"))
        if i % 2:
            script.spend("actor_opt")
            script.clear("actor_opt")
    script.close()

    assert script.alarms() == []


SHARED = """\
import torch
own = SGD(trunk)
joint = SGD(trunk, head)
for x in loader:
    own.zero_grad()
    own_loss.backward()
    own.step()
    joint.zero_grad()
    joint_loss.backward()
    joint.step()
"""


@pytest.mark.parametrize(
    ("zeroed", "line", "alarms"),
    [
        (False, "joint_loss.backward()", ["GK104:10"]),
        (True, "joint_loss.backward()", []),
        (False, "own_loss.backward()", []),
    ],
    ids=["left over", "zeroed between", "of one line"],
)
def test_what_another_one_has_applied_to_the_same_weights_is_left_over(
    zeroed: bool, line: str, alarms: list[str]
) -> None:
    script = Script(SHARED)
    script.adopt("own =", optimizer="own", accounts=("trunk",))
    script.adopt("joint =", optimizer="joint", accounts=("trunk", "head"))
    for _ in range(3):
        script.fetch()
        script.zero("own.zero_grad()", accounts=("trunk", "head"))
        script.backward("own_loss.backward()", accounts=("trunk", "head"))
        script.spend("own")
        if zeroed:
            script.zero("joint.zero_grad()", accounts=("trunk", "head"))
        script.backward(line, accounts=("trunk", "head"))
        script.spend("joint")
    script.close()

    assert script.alarms() == alarms


def test_a_share_of_the_critic_that_outlives_its_batch_is_reported() -> None:
    """TD3: the actor's loss runs through one of two critics."""
    script = Script(LOOP)
    script.build("actor", optimizer="actor_opt")
    script.build("critic", "second", optimizer="critic_opt")
    for _ in range(3):
        script.fetch()
        script.backward("critic_loss.backward()", accounts=("critic", "second"))
        script.spend("critic_opt")
        script.clear("critic_opt")
        script.clear("actor_opt")
        actor_turn(script)
    script.close()

    assert script.alarms() == ["GK104:7"]


def test_weights_moved_by_hand_are_no_other_optimizer() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        script.zero("zero_grad", accounts=BOTH)
        script.backward("actor_loss.backward()", accounts=BOTH)
        script.move("actor_opt.step()", accounts=("actor",), gradient=True)
        critic_turn(script)
    script.close()

    assert script.lines_of(rule) == []


def test_gradients_put_in_place_by_hand_are_no_loss_of_its_own() -> None:
    script = built(Script(LOOP))
    for _ in range(3):
        script.fetch()
        actor_turn(script)
        script.clear("actor_opt")
        script.assign("critic_loss.backward()", accounts=("critic",))
        script.spend("critic_opt")
        script.clear("critic_opt")
    script.close()

    assert script.alarms() == []
