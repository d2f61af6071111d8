from gradkeeper.rules.ranks_disagree import rule
from tests.script import Script

LOOP = """\
import torch
with engine.window():
    pass
"""


def digest(*ranks: str) -> Script:
    script = Script(LOOP)
    script.digest("with engine", ranks=ranks)
    return script


def test_ranks_that_did_the_same_are_silent() -> None:
    script = digest("stepped on 4", "stepped on 4", "stepped on 4")

    assert script.findings() == []


def test_a_rank_that_skipped_alone_is_named() -> None:
    script = digest("stepped on 4", "skipped", "stepped on 4")

    (finding,) = script.findings()

    assert finding.rule == rule.code
    assert finding.site.line == 2
    assert finding.message == ("the ranks part here: rank 1 skipped, the others stepped on 4")
    assert finding.detail == "1 of 3 ranks did otherwise in this window"
    assert finding.remedy == "let all ranks decide together whether to step"
    assert finding.because == ()


def test_a_rank_that_filled_its_window_differently_is_named() -> None:
    script = digest("stepped on 4", "stepped on 3")

    (finding,) = script.findings()

    assert finding.message == ("the ranks part here: rank 1 stepped on 3, the others stepped on 4")


def test_of_many_ranks_that_differ_four_are_named_and_all_are_counted() -> None:
    script = digest(*["stepped"] * 8, *["skipped"] * 6)

    (finding,) = script.findings()

    assert finding.message == (
        "the ranks part here: rank 8 skipped, rank 9 skipped, rank 10 skipped, rank 11 skipped, "
        "the others stepped"
    )
    assert finding.detail == "6 of 14 ranks did otherwise in this window"


def test_one_rank_alone_has_nobody_to_disagree_with() -> None:
    script = digest("skipped")

    assert script.findings() == []
