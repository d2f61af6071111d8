from gradkeeper.rules.orphan_parameter import rule
from tests.script import Script, block, marked, mean, reasons

LOOP = """\
import torch
optimizer = SGD(encoder)
other = SGD(decoder)
for x in loader:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    other.step()
    w -= 0.1 * w.grad
"""

BOTH = ("encoder", "decoder")


def encoder_only() -> Script:
    script = Script(LOOP)
    script.build("encoder")
    return script


def test_a_decoder_without_optimizer_is_reported_at_the_step() -> None:
    script = block(rule, "bad")
    script.build("encoder")
    for _ in range(6):
        script.fetch()
        script.zero("encoder.zero_grad()", accounts=("encoder",))
        script.zero("decoder.zero_grad()", accounts=("decoder",))
        script.credit(*BOTH, **mean())
        script.spend()
    script.close()

    assert script.lines_of(rule) == marked(rule)
    assert script.alarms() == ["GK105:10"]


def test_a_frozen_decoder_is_silent() -> None:
    script = block(rule, "good")
    script.build("encoder")
    script.train(6, "encoder", **mean())
    script.close()

    assert script.findings() == []


def test_the_finding_names_the_orphan_and_the_optimizer_that_left_it_out() -> None:
    script = encoder_only()
    script.open("import", account="decoder", parameters=("weight", "bias"), size=2)
    script.train(2, *BOTH)

    (finding,) = script.findings()

    assert finding.message == "step() leaves `decoder` as it was: no optimizer owns it"
    assert finding.detail == ("account `decoder`: credited on 6, never spent")
    assert finding.remedy == "give `decoder` to an optimizer, or freeze it by requires_grad_(False)"
    assert reasons(finding) == [
        (6, "fills the gradients of `decoder`"),
        (2, "`optimizer` was built without it"),
    ]


def test_a_head_swapped_after_the_optimizer_was_built_is_reported() -> None:
    script = Script(LOOP)
    script.build("trunk", "old head")
    script.train(3, "trunk", "new head")
    script.close()

    assert script.alarms() == ["GK105:7"]


def test_a_network_with_weights_of_a_file_is_meant_to_stay_as_it_is() -> None:
    script = encoder_only()
    script.restore(accounts=("decoder",))
    script.train(3, *BOTH)
    script.close()

    assert script.alarms() == []


def test_weights_put_back_in_memory_say_nothing_of_that() -> None:
    script = encoder_only()
    script.restore(accounts=("decoder",), disk=False)
    script.train(3, *BOTH)
    script.close()

    assert script.alarms() == ["GK105:7"]


def test_an_optimizer_that_comes_later_is_in_time_before_the_second_step() -> None:
    script = encoder_only()
    script.train(1, *BOTH)
    script.build("decoder", optimizer="other")
    for _ in range(3):
        script.fetch()
        script.zero("optimizer.zero_grad()", accounts=BOTH)
        script.credit(*BOTH)
        script.spend()
        script.spend("other")
    script.close()

    assert script.alarms() == []


def test_an_image_optimized_through_a_fixed_model_is_silent() -> None:
    script = Script(LOOP)
    script.open("import", account="vgg", trainable=False)
    script.build("image")
    script.train(6, "image", "vgg")
    script.close()

    assert script.findings() == []


def test_an_image_optimized_by_closures_through_a_fixed_model_is_silent() -> None:
    script = Script(LOOP)
    script.open("import", account="vgg", trainable=False)
    script.build("image")
    for _ in range(3):
        for _ in range(4):
            script.clear(within="optimizer")
            script.credit("image", "vgg", within="optimizer")
        script.spend()
    script.close()

    assert script.findings() == []


def test_a_part_that_is_updated_by_hand_is_no_orphan() -> None:
    script = encoder_only()
    for _ in range(4):
        script.micro_batch(*BOTH)
        script.spend()
        script.move("w -=", accounts=("decoder",), gradient=True)
        script.zero("optimizer.zero_grad()", accounts=BOTH)
    script.close()

    assert script.alarms() == []


def test_a_critic_with_an_optimizer_of_its_own_is_no_orphan_of_the_actors_loss() -> None:
    script = encoder_only()
    script.build("decoder", optimizer="other")
    for _ in range(3):
        script.fetch()
        script.zero("optimizer.zero_grad()", accounts=BOTH)
        script.credit(*BOTH)
        script.spend()
        script.zero("optimizer.zero_grad()", accounts=BOTH)
        script.credit("decoder")
        script.spend("other")
    script.close()

    assert script.alarms() == []
