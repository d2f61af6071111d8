"""The statement as one page: no network, nothing beside it, opened from a disk or a mail."""

import json
from collections.abc import Callable
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template
from typing import Any

from gradkeeper.model import Finding, Severity, Site
from gradkeeper.report.source import line_of, shown_path
from gradkeeper.report.statement import findings as cards
from gradkeeper.report.statement import measures, replicas
from gradkeeper.report.statement.contents import Repeat, Statement
from gradkeeper.report.statement.window_story import OPEN, SKIPPED, SPENT, Shape, Story

SCRIPTS = ("data.js", "view.js", "svg.js", "timeline.js", "curves.js", "table.js", "main.js")
ShapeRun = tuple[list[int], int]


def render(statement: Statement, title: str, how: str = "") -> str:
    """The page of a statement; `title` names the script or the tape, `how` tells how the script
    ended, if not well."""
    assets = files("gradkeeper.report.statement") / "assets"
    counted = [finding for finding in statement.findings if finding.counts]
    runs = _runs(statement)
    layers = measures.layers(statement)
    compared = replicas.render(statement)
    seen = bool(statement.backwards or runs)
    return Template((assets / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        verdict=escape(_verdict(statement, runs, seen=seen, how=how)),
        mood=str(min(counted, key=_gravity).severity) if counted else _mood(seen=seen),
        lead=escape(_lead(statement, runs, how)),
        brief=cards.brief(statement.findings),
        totals=_totals(statement, runs),
        findings=cards.render(statement.findings),
        findings_hidden="" if statement.findings else "hidden",
        replicas=compared,
        replicas_hidden="" if compared else "hidden",
        layers=layers,
        layers_hidden="" if layers else "hidden",
        style=(assets / "style.css").read_text(encoding="utf-8"),
        script="\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS),
        data=in_script(_data(statement, runs)),
    )


def in_script(value: object) -> str:
    """JSON that cannot end the script element it stands in, nor a line of it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _mood(*, seen: bool) -> str:
    return "balanced" if seen else "nothing"


def _gravity(finding: Finding) -> int:
    return list(Severity).index(finding.severity)


def _runs(statement: Statement) -> list[ShapeRun]:
    """Shapes in order: what came once in long rows, repetitions with their number."""
    runs: list[ShapeRun] = []
    for repeated, some in groupby(statement.passages, lambda passage: isinstance(passage, Repeat)):
        if repeated:
            runs += [
                (_numbers(repeat.stories), repeat.times)
                for repeat in some
                if isinstance(repeat, Repeat)
            ]
        else:
            runs.append((_numbers([story for story in some if isinstance(story, Story)]), 1))
    return runs


def _numbers(stories: list[Story]) -> list[int]:
    return [story.shape for story in stories if story.shape is not None]


def _count(statement: Statement, runs: list[ShapeRun], what: Callable[[Shape], int]) -> int:
    """A sum over all windows, of all ranks, of something that their shape tells."""
    ranks = [max(1, len(lane.ranks)) for lane in statement.lanes]
    each = [what(shape) * ranks[shape.lane] for shape in statement.shapes]
    return sum(times * sum(each[shape] for shape in shapes) for shapes, times in runs)


def _verdict(statement: Statement, runs: list[ShapeRun], *, seen: bool, how: str) -> str:
    lost = _count(statement, runs, _thrown_away)
    return cards.verdict(statement.findings, seen=seen, lost=lost, how=how)


def _lead(statement: Statement, runs: list[ShapeRun], how: str) -> str:
    steps = _count(statement, runs, lambda shape: shape.ended != OPEN)
    owners = len({lane.optimizer for lane in statement.lanes})
    ranks = {rank for lane in statement.lanes for rank in lane.ranks}
    where = f" on {len(ranks)} ranks" if len(ranks) > 1 else ""
    if len(ranks) == 1:
        where = f", as rank {ranks.pop()} kept its books"
    if not statement.backwards and not steps:
        return f"No backward call and no step was seen{f' before the script {how}' if how else ''}."
    wrong = any(finding.counts for finding in statement.findings)
    fine = "" if wrong else "Nothing wrong was found in "
    return (
        f"{fine}{statement.backwards:,} backward call{'s' * (statement.backwards != 1)} and"
        f" {steps:,} step{'s' * (steps != 1)} of {owners} optimizer{'s' * (owners != 1)}{where}"
        f"{f', before the script {how}' if how else ''}."
        " Each backward() pays a gradient in, each step() spends it, zero_grad() closes the"
        " account: every gradient should reach the weights exactly once."
    )


def _totals(statement: Statement, runs: list[ShapeRun]) -> str:
    said = {
        "backward calls": statement.backwards,
        "steps taken": _count(statement, runs, lambda shape: shape.ended == SPENT),
        "steps skipped": _count(statement, runs, lambda shape: shape.ended == SKIPPED),
        "thrown away unspent": _count(statement, runs, _thrown_away),
        "windows unfinished": _count(statement, runs, lambda shape: shape.ended == OPEN),
    }
    return "".join(
        f'<div class="{"some" if many else "none"}"><dt>{name}</dt><dd>{many:,}</dd></div>'
        for name, many in said.items()
    )


def _thrown_away(shape: Shape) -> int:
    return sum(line.lost for line in shape.lines)


def _data(statement: Statement, runs: list[ShapeRun]) -> dict[str, Any]:
    sites: dict[Site, int] = {}
    shapes = [_shape(shape, sites) for shape in statement.shapes]
    return {
        "lanes": [{"name": lane.optimizer, "where": lane.where} for lane in statement.lanes],
        "shapes": shapes,
        "sites": [_site(site) for site in sites],
        "runs": runs,
        "findings": [
            {
                "rule": finding.rule,
                "name": finding.name,
                "severity": finding.severity,
                "said": finding.message,
            }
            for finding in statement.findings
        ],
        "curves": measures.curves(statement),
    }


def _shape(shape: Shape, sites: dict[Site, int]) -> dict[str, Any]:
    lines = [
        (line.kind, sites.setdefault(line.site, len(sites)), *line[2:]) for line in shape.lines
    ]
    return {**shape._asdict(), "lines": lines}


def _site(site: Site) -> list[Any]:
    text = line_of(site.file, site.line)
    return [shown_path(site.file), site.line, site.function, None if text is None else text.strip()]
