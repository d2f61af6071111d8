from typing import Any

from gradkeeper.rules.replicas_differ import rule
from tests.script import Script

LOOP = """\
import torch
optimizer = SGD(model)
for x in loader:
    optimizer.step()
"""


def compared(**facts: Any) -> Script:
    script = Script(LOOP)
    script.replicas("optimizer.step()", optimizer="optimizer", world=4, **facts)
    return script


def test_equal_replicas_are_silent() -> None:
    assert compared(step=8, equal=4).findings() == []


def test_a_rank_that_differs_is_named_with_parameter_and_step() -> None:
    script = compared(step=8, equal=4, parameter="model.head.weight", differing=(2,))

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.site.line == 4
    assert (finding.first_step, finding.last_step) == (8, 8)
    assert finding.message == (
        "rank 2 holds other weights than the others after step 8: `model.head.weight` differs"
    )
    assert finding.detail == "account `optimizer`: equal after step 4; 1 of 4 ranks differ"
    assert finding.remedy == (
        "every forward through the DistributedDataParallel wrapper, no_sync() around forward and "
        "backward, and each step on all ranks"
    )


def test_several_ranks_that_were_never_equal_are_told_so() -> None:
    script = compared(step=1, parameter="net.weight", differing=(1, 2, 3))

    (finding,) = script.findings()

    assert finding.message.startswith("ranks 1, 2, 3 hold other weights than the others")
    assert finding.detail == "account `optimizer`: never seen equal; 3 of 4 ranks differ"


def test_many_ranks_are_not_all_listed() -> None:
    script = compared(step=1, parameter="net.weight", differing=tuple(range(1, 9)))

    (finding,) = script.findings()

    assert finding.message.startswith("ranks 1, 2, 3, 4 and others hold other weights")
