"""Comments that silence one line, and the ones that silence nothing."""

import pytest

from gradkeeper.lint import check_source
from gradkeeper.rules import ALL
from tests.lint.linting import loop


def checked(comment: str) -> tuple[list[str], list[tuple[str, str]]]:
    code = loop(f"model(x).mean().backward()\noptimizer.step()  {comment}")
    found = check_source(code, "train.py", ALL, fixes=False)
    return [one.rule for one in found.findings], found.unused


def test_a_finding_can_be_allowed_by_name_with_a_reason() -> None:
    assert checked("# gradkeeper: allow stale-gradient - momentum by hand") == ([], [])


def test_a_finding_can_be_allowed_by_code() -> None:
    assert checked("# gradkeeper: allow GK101 - on purpose") == ([], [])


def test_noqa_with_our_code_silences_the_line() -> None:
    assert checked("# noqa: E501, GK101") == ([], [])


@pytest.mark.parametrize("comment", ["# NOQA:GK101", "#noqa:gk101", "# NoQA : GK101", "# NOQA"])
def test_noqa_is_read_in_any_case_and_spacing(comment: str) -> None:
    assert checked(comment) == ([], [])


def test_a_blanket_noqa_silences_the_line() -> None:
    assert checked("# noqa") == ([], [])


def test_noqa_of_another_tool_silences_nothing_of_ours() -> None:
    assert checked("# noqa: E501") == (["GK101"], [])


def test_a_suppression_that_silences_nothing_is_told() -> None:
    assert checked("# gradkeeper: allow discarded-gradient - why") == (
        ["GK101"],
        [("9", "discarded-gradient")],
    )


def test_a_comment_on_its_own_line_speaks_of_the_next() -> None:
    code = loop(
        "model(x).mean().backward()\n# gradkeeper: allow stale-gradient - yes\noptimizer.step()"
    )

    assert check_source(code, "train.py", ALL).findings == []
