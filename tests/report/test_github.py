"""Workflow commands: one line each, with what would break a line escaped."""

from gradkeeper.model.finding import Finding, Severity
from gradkeeper.model.site import Site
from gradkeeper.report import github


def test_a_finding_is_one_command_with_its_place() -> None:
    finding = Finding(
        rule="GK101",
        name="stale-gradient",
        severity=Severity.ERROR,
        site=Site("a,b.py", 3, 5),
        message="100% again",
        remedy="zero",
    )

    assert github.render([finding]) == (
        "::error file=a%2Cb.py,line=3,col=5,title=GK101 stale-gradient"
        "::100%25 again%0Aremedy: zero\n"
    )


def test_infos_become_notices() -> None:
    finding = Finding(
        rule="GK603", name="late-zero", severity=Severity.INFO, site=Site("a.py", 1), message="m"
    )

    assert github.render([finding]).startswith("::notice ")
