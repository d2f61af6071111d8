from pathlib import Path

from gradkeeper.model import Finding, Severity, Site
from gradkeeper.report import text

SOURCE = "import torch\nfor x in loader:\n    optimizer.step()\n"


def finding(path: str, **facts: object) -> Finding:
    known: dict[str, object] = {
        "rule": "GK101",
        "name": "stale-gradient",
        "severity": Severity.ERROR,
        "site": Site(path, 3, 5),
        "message": "spends the gradient of line 2 again",
        "detail": "account `optimizer`: credited on 2, spent on 3, not zeroed since",
        "remedy": "optimizer.zero_grad() at the top of the loop",
    }
    return Finding(**(known | facts))  # type: ignore[arg-type]


def test_a_finding_shows_its_line_with_a_pointer(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SOURCE)

    shown = text.render_one(finding(str(script)))

    assert shown == (
        f"{script}:3:5  GK101 stale-gradient\n"
        "    3 |     optimizer.step()\n"
        "      |     ^ spends the gradient of line 2 again\n"
        "   account `optimizer`: credited on 2, spent on 3, not zeroed since\n"
        "   remedy: optimizer.zero_grad() at the top of the loop         "
        "(gradkeeper explain GK101)\n"
    )


def test_of_an_endless_line_only_what_lies_around_the_place_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "data.py"
    script.write_text(f"data = [{'1, ' * 100_000}]; optimizer.step(); x = [{'2, ' * 100_000}]\n")
    column = script.read_text().index("optimizer") + 1

    shown = text.render_one(finding(str(script), site=Site(str(script), 1, column))).splitlines()

    assert max(map(len, shown)) < 300
    assert shown[1].startswith("    1 | ...")
    assert shown[1].endswith("...")
    assert shown[1][shown[2].index("^") :].startswith("optimizer.step()")


def test_the_beginning_of_an_endless_line_is_shown_as_it_is(tmp_path: Path) -> None:
    script = tmp_path / "data.py"
    script.write_text(f"optimizer.step(); x = [{'2, ' * 100_000}]\n")

    shown = text.render_one(finding(str(script), site=Site(str(script), 1, 1))).splitlines()

    assert shown[1].startswith("    1 | optimizer.step(); x = [2, ")
    assert shown[2].startswith("      | ^ ")


def test_a_finding_without_its_source_still_says_what_happens() -> None:
    assert "   spends the gradient of line 2 again\n" in text.render_one(finding("gone.py"))


def test_severity_doubt_and_rank_are_said_beside_the_name() -> None:
    doubtful = finding("gone.py", severity=Severity.WARNING, certain=False, rank=2)

    assert "GK101 stale-gradient (warning, possible, rank 2)\n" in text.render_one(doubtful)


def test_a_cell_is_part_of_the_place() -> None:
    assert text.render_one(finding("book.ipynb", cell=4)).startswith("book.ipynb:cell 4:3:5  GK101")


def test_repeats_are_counted_with_their_steps() -> None:
    repeated = finding("gone.py", count=3, first_step=2, last_step=4)

    assert "(3 times, steps 2 to 4)" in text.render_one(repeated)
    assert "(3 times)" in text.render_one(finding("gone.py", count=3))


def test_repeats_at_some_steps_only_are_said_to_lie_between_them() -> None:
    repeated = finding("gone.py", count=5, first_step=1, last_step=8)

    assert "(5 times between steps 1 and 8)" in text.render_one(repeated)


def test_the_summary_counts_by_severity() -> None:
    two = [finding("a.py"), finding("b.py"), finding("c.py", severity=Severity.INFO)]

    assert text.render(two).endswith("found 2 errors, 1 info\n")


def test_nothing_found_is_said_in_words() -> None:
    assert text.render([]) == "nothing found\n"
