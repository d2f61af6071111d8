import pytest

from gradkeeper.cli import main
from gradkeeper.rules import ALL


@pytest.mark.parametrize("word", ["GK101", "gk101", "stale-gradient"])
def test_a_rule_is_found_by_code_or_name(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 0

    assert capsys.readouterr().out.startswith("GK101 stale-gradient [error]\n\nA step applies")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("GK1o1", "GK101"), ("GK305x", "GK305"), ("stale-gradeint", "GK101"), ("late", "GK603")],
)
def test_a_wrong_word_suggests_the_nearest(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", typed]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"gradkeeper explain: there is no rule '{typed}'; did you mean {meant}")
    assert error.count("\n") == 1


def test_a_code_that_is_no_rule_suggests_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GK999"]) == 2

    assert capsys.readouterr().err == (
        "gradkeeper explain: there is no rule 'GK999'; `gradkeeper rules` lists them\n"
    )


def test_examples_are_told_apart_by_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GK504"]) == 0

    out = capsys.readouterr().out
    assert "Wrong, as only a run can tell:\n\n```python\n" in out
    assert "python bad" not in out


def test_the_catalogue_has_a_line_for_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [rule.code for rule in ALL]
