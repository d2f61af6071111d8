"""A finding that holds under a setting says so, in every format; one that always holds does not."""

import json

import pytest

from gradkeeper.model import Finding, Findings, Severity, Site
from gradkeeper.report import FORMATS, html
from gradkeeper.report.statement import findings as cards

SETTING = "args.amp is false"
WORDS = f"where {SETTING}"


def finding(when: str | None) -> Finding:
    return Finding(
        rule="GK301",
        name="clip-scaled-gradient",
        severity=Severity.ERROR,
        site=Site("gone.py", 3, 5),
        message="clips too early",
        remedy="unscale first",
        when=when,
    )


def everywhere(found: Finding) -> dict[str, str]:
    told = {name: render([found]) for name, render in FORMATS.items()}
    return told | {"notebook": html.render([found]), "page": cards.render([found])}


@pytest.mark.parametrize("name", sorted(everywhere(finding(SETTING)).keys() - {"json"}))
def test_every_format_tells_the_setting_and_invents_none(name: str) -> None:
    assert WORDS in everywhere(finding(SETTING))[name]
    assert "where" not in everywhere(finding(None))[name]


def test_json_and_sarif_carry_it_for_machines() -> None:
    (conditional,) = json.loads(FORMATS["json"]([finding(SETTING)]))["findings"]
    (general,) = json.loads(FORMATS["json"]([finding(None)]))["findings"]
    (run,) = json.loads(FORMATS["sarif"]([finding(SETTING)]))["runs"]

    assert conditional["when"] == SETTING
    assert general["when"] is None
    assert run["results"][0]["properties"]["when"] == SETTING


def test_findings_of_one_line_hold_wherever_one_of_them_does() -> None:
    (same,) = Findings([finding(SETTING), finding(SETTING)])
    (either,) = Findings([finding(SETTING), finding("args.fp16 is true")])
    (always,) = Findings([finding(SETTING), finding(None)])

    assert same.when == SETTING
    assert either.when == "args.amp is false or args.fp16 is true"
    assert always.when is None
