"""A page quotes the demo; what may differ between machines is not taken for a difference."""

import pytest

from docs.demo_excerpt import quoted, renewed, steady, third_part

OUTPUT = """
3/4  A model, killed

   step 8: loss 3.22
   sha256 {0}
   sha256 {1}

4/4  A page
"""
ONE, OTHER = "ab" * 32, "cd" * 32


def page(part: str) -> str:
    return f"# Title\n\n<!-- part 3 of: gradkeeper demo -->\n```text\n{part}```\n"


def test_the_part_stands_without_its_title_and_the_next_one() -> None:
    part = third_part(OUTPUT.format(ONE, ONE))

    assert part == f"   step 8: loss 3.22\n   sha256 {ONE}\n   sha256 {ONE}\n"


def test_other_losses_and_digests_leave_the_page_as_it_is() -> None:
    old = page(third_part(OUTPUT.format(ONE, ONE)))

    assert renewed(old, OUTPUT.format(OTHER, OTHER).replace("3.22", "3.19")) == old


def test_digests_that_are_no_longer_equal_are_a_difference() -> None:
    old = page(third_part(OUTPUT.format(ONE, ONE)))

    new = renewed(old, OUTPUT.format(ONE, OTHER))

    assert quoted(new) == third_part(OUTPUT.format(ONE, OTHER))


def test_a_kill_one_micro_batch_later_is_no_difference() -> None:
    told = "killed after step {} and {} micro-batches; save-0000{}: window open"

    assert steady(told.format(12, 5, 13)) == steady(told.format(13, 0, 14))


def test_other_words_are_a_difference() -> None:
    assert steady("window open, 3 of 8") != steady("window open, 4 of 8")


def test_a_page_without_the_part_is_told() -> None:
    with pytest.raises(LookupError, match="quotes no part"):
        quoted("# Title\n")
