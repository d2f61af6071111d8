"""The verdict as a badge, of proofs written by hand."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gradkeeper.prove.proof import Proof
from gradkeeper.prove.verdict import EXACT, NOT_EXACT, UNKNOWN, badge
from tests.prove import test_verdict as proofs


@pytest.mark.parametrize(
    ("proof", "said", "colour"),
    [
        (proofs.EXACT, "exact, 2 kills", EXACT),
        (
            replace(proofs.EXACT, failure="fails when started again"),
            "not exact, 2 kills",
            NOT_EXACT,
        ),
        (proofs.ANEW, "nothing resumed", UNKNOWN),
        (replace(proofs.EXACT, kills=()), "unknown", UNKNOWN),
        (None, "unknown", UNKNOWN),
    ],
)
def test_a_badge_says_the_verdict_in_its_colour(
    proof: Proof | None, said: str, colour: str
) -> None:
    drawn = badge(proof)

    picture = ElementTree.fromstring(drawn)
    assert picture.attrib["aria-label"] == f"resume: {said}"
    assert {colour} == {one for one in (EXACT, NOT_EXACT, UNKNOWN) if one in drawn}
