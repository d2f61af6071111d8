"""Loops drawn from a grammar are run under the watcher and read by the linter: both say the same.

A disagreement is a bug of one of them; the plainest program that shows it is printed.
"""

import contextlib
import gc
import io
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from gradkeeper.rules import ALL
from gradkeeper.watcher import Watch
from tests.lint.generated import PAIR, SINGLE, Plan, draw, render, shrink
from tests.lint.transform import PARTS, SCRIPT
from tests.lint.verdicts import Verdict, read

FEW, MANY = 60, 10_000
AT_ONCE = 500
ONE_SIDED = {rule.code for rule in ALL if any(block.side for block in rule.blocks)}
"""Rules that only reading or only running can apply."""
MENDED = (
    {"data": "loader", "window": "2", "count": "generator"},
    {
        "optimizer": "Adam",
        "window": "3",
        "count": "zero based",
        "gathered": "total",
        "zero": "first of window",
        "built": "round",
    },
    {"pair": "heads", "detach": "no", "zeroed": "model", "amp": "scaler"},
    {"zeroed": "model", "stepped": "by hand", "fault": "drop zero"},
    {"model": "net", "zeroed": "head", "stepped": "by hand"},
    {"clip": "value", "built": "round", "fault": "earlier step"},
    {"window": "3", "count": "islice", "batches": "7", "divide": "line"},
    {"model": "swapped", "cast": "float16", "probed": "first", "built": "round"},
    {
        "data": "loader",
        "epochs": "2",
        "window": "2",
        "count": "state",
        "tail": "after the loop",
        "divide": "inline",
        "zero": "after",
        "ended": "early",
    },
    {"penalty": "gradient", "fault": "drop step_d"},
    {"rhythm": "third", "fault": "drop step_g"},
    {"detach": "no", "rhythm": "third", "several": "d", "fault": "drop zero_g"},
    {"data": "stream", "detach": "no", "zero_g": "after", "rhythm": "third", "several": "d"},
    {"detach": "no", "rhythm": "late", "several": "d", "fault": "ungate step_g"},
    {"data": "stream", "pair": "heads", "zeroed": "model", "rhythm": "late"},
    {"data": "stream", "rhythm": "late", "fault": "later step_d"},
    {"model": "swapped", "owned": "head", "probed": "first", "built": "round"},
    {"window": "2", "zero": "epoch", "aux": "each", "ended": "early"},
    {"batches": "4", "data": "stream", "window": "3", "zero": "first of window", "aux": "each"},
    {"window": "2", "count": "down", "zeroed": "by hand", "fault": "ungate reset"},
    {"loop": "next", "window": "2", "count": "at least", "fault": "ungate reset"},
    {"window": "2", "count": "zero based", "built": "round"},
    {"average": "ema", "skipped": "step", "save": "round", "built": "round"},
    {"batches": "4", "window": "3", "zeroed": "head", "tried": "backward"},
    {"built": "round", "window": "2", "tail": "after the loop", "batches": "7"},
    {"tried": "backward", "zeroed": "to None", "fault": "earlier step"},
    {"tried": "backward", "zeroed": "to None", "skipped": "norm", "fault": "earlier step"},
    {"data": "tensor", "window": "2", "count": "inner"},
    {"data": "tensor", "window": "2", "count": "generator", "batches": "7", "divide": "line"},
    {"data": "tensor", "window": "2", "zero": "after", "stepped": "decorated", "ended": "at least"},
    {"data": "loader", "window": "2", "count": "samples", "owned": "kept", "clip": "measure"},
    {"data": "tensor", "window": "3", "count": "samples"},
    {"data": "loader", "window": "2", "count": "fetched"},
    {"data": "stream", "window": "2", "count": "islice"},
    {"data": "stream", "window": "2", "count": "generator"},
    {"data": "stream", "window": "2", "count": "flagged", "zero": "epoch", "built": "round"},
    {"rhythm": "late", "batches": "7", "loop": "restarting", "zero_d": "after"},
    {
        "epochs": "3",
        "model": "frozen",
        "thawed": "later",
        "owned": "trainable",
        "built": "epoch",
    },
    {
        "epochs": "2",
        "model": "frozen",
        "thawed": "later",
        "owned": "trainable",
        "save": "best",
        "load": "epoch",
    },
    {
        "batches": "4",
        "data": "stream",
        "loop": "next",
        "window": "3",
        "count": "at least",
        "divide": "inline",
        "zero": "epoch",
    },
    {"batches": "4", "window": "3", "named": "namespace", "stepped": "callbacks", "save": "epoch"},
    {"clip": "norm", "stepped": "partial", "built": "round", "fault": "later clip"},
    {"pair": "gan", "fault": "drop backward_g", "second fault": "later backward_d"},
    {"window": "3", "zero": "late", "skipped": "cleared", "ended": "early"},
    {"epochs": "2", "window": "2", "zero": "after", "aux": "each", "ended": "at least"},
    {"zero": "epoch", "tried": "backward", "fault": "double backward"},
    {"epochs": "2", "window": "2", "stepped": "lambda", "ended": "at least", "fault": "drop zero"},
    {"window": "3", "count": "flagged", "zero": "first of window", "stepped": "callbacks"},
    {"window": "2", "count": "down", "skipped": "cleared", "fault": "ungate reset"},
    {"model": "swapped", "clip": "norm", "built": "round", "fault": "later clip"},
    {
        "epochs": "2",
        "batches": "4",
        "window": "3",
        "tail": "with the gate",
        "divide": "line",
        "zero": "epoch",
    },
    {"data": "tensor", "window": "2", "ended": "early", "save": "best"},
    {"data": "stream", "save": "best", "fault": "drop step"},
    {"pair": "gan", "rhythm": "late", "several": "d", "fault": "drop backward_g"},
    {
        "window": "2",
        "count": "running",
        "tail": "after the loop",
        "divide": "line",
        "zero": "after",
        "skipped": "batch",
    },
    {"window": "2", "count": "running", "zero": "first of window", "tried": "backward"},
    {
        "writing": "loop_in_function",
        "window": "3",
        "zero": "epoch",
        "aux": "each",
        "stepped": "lambda",
        "ended": "at least",
    },
    {"epochs": "3", "loop": "cycle", "window": "3", "count": "running", "zero": "epoch"},
    {
        "writing": "with_while",
        "window": "2",
        "zero": "first of window",
        "tried": "backward",
        "ended": "early",
        "save": "best",
    },
    {
        "aux": "own backward",
        "skipped": "batch",
        "tried": "backward",
        "fault": "double backward",
    },
    {"loss": "helper", "tick": "step", "fault": "drop backward"},
    {"data": "loader", "loop": "cycle", "detach": "no", "rhythm": "second", "zero_g": "after"},
    {"window": "2", "amp": "scaler", "tried": "backward", "fault": "double backward"},
    {
        "batches": "4",
        "window": "3",
        "zero": "after",
        "probed": "first",
        "save": "best",
        "load": "epoch",
    },
    {
        "data": "stream",
        "order": "g first",
        "zero_d": "top",
        "several": "g",
        "fault": "later backward_d",
    },
    {"order": "g first", "zero_d": "top", "several": "g", "fault": "later backward_d"},
    {"pair": "heads", "detach": "no", "zeroed": "model", "several": "g"},
    {"data": "stream", "pair": "heads", "detach": "no", "zeroed": "model", "several": "g"},
    {
        "data": "stream",
        "held": "list",
        "rhythm": "second",
        "several": "d",
        "fault": "drop backward_g",
    },
    {"model": "swapped", "owned": "added", "fault": "drop zero", "second fault": "drop backward"},
    {"epochs": "2", "zero_d": "after", "several": "g", "fault": "drop backward_d"},
    {
        "writing": "with_while",
        "epochs": "2",
        "window": "2",
        "zero": "after",
        "aux": "each",
        "ended": "at least",
    },
    {"batches": "7", "loop": "cycle", "window": "2", "tail": "with the gate"},
    {
        "writing": "body_in_function",
        "pair": "heads",
        "detach": "no",
        "zeroed": "model",
        "rhythm": "second",
        "several": "d",
    },
)
"""Choices on which they once differed, others being plain."""
STILL_TOLD = (
    ({"batches": "7", "loop": "cycle", "window": "2"}, "GK102"),
    ({"window": "2", "zero": "after", "save": "round"}, "GK401"),
    (
        {"pair": "heads", "detach": "no", "zeroed": "model", "rhythm": "second", "several": "d"},
        "GK104",
    ),
)
"""Such as are near to some of these, and what both have to say of them."""
Texts = Mapping[str, str]


@pytest.fixture(scope="module", autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()


def by_running(texts: Texts) -> set[Verdict] | None:
    """What the watcher tells; None of a program that fails, which nobody has to judge.

    In a thread of its own: our loops over programs would be the loops around the program's.
    """
    _set_aside()
    gc.collect()  # the program before may have left models behind, and the watcher looks at all
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(_by_running, texts).result()


def _by_running(texts: Texts) -> set[Verdict] | None:
    with tempfile.TemporaryDirectory() as name, _working_in(Path(name), texts):
        own = (f"{os.path.realpath(name)}{os.sep}",)
        with Watch(on_finding="record", own=own) as watch:
            try:
                runpy.run_path(os.path.join(os.path.realpath(name), SCRIPT), run_name="__main__")
            except Exception:
                return None
    return {Verdict(one.rule, Path(one.site.file).name, one.site.line) for one in watch.findings}


@cache
def _set_aside() -> None:
    """What exists before the first program is none of the watcher's business: it looks at each
    object that the collector knows, and torch alone has a million."""
    torch.optim.SGD([torch.zeros(1)])
    gc.freeze()


@contextlib.contextmanager
def _working_in(folder: Path, texts: Texts) -> Iterator[None]:
    before, path, argv = os.getcwd(), list(sys.path), list(sys.argv)
    for file, text in texts.items():
        (folder / file).write_text(text)
    os.chdir(folder)
    sys.path.insert(0, os.path.realpath(folder))
    sys.argv = [SCRIPT]
    quiet = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(quiet):
            warnings.simplefilter("ignore")
            yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        sys.argv[:] = argv
        sys.modules.pop(PARTS.removesuffix(".py"), None)


def disagreement(told: set[Verdict], seen: set[Verdict]) -> list[str]:
    """What only one side says. What the linter holds possible may happen or not."""
    certain = {one for one in told if one.certain and one.rule not in ONE_SIDED}
    possible = {(one.rule, one.file, one.line) for one in told if not one.certain}
    real = {one for one in seen if one.rule not in ONE_SIDED}
    missed = [one for one in real - certain if (one.rule, one.file, one.line) not in possible]
    return [
        *(f"only the watcher: {one}" for one in sorted(missed)),
        *(f"only the linter: {one}" for one in sorted(certain - real)),
    ]


def disagreements(plans: Iterable[Plan]) -> list[tuple[Plan, list[str]]]:
    """The plans of programs on which the two differ; one run of the linter for all of them."""
    programs: dict[str, tuple[Plan, dict[str, str], set[Verdict]]] = {}
    for number, plan in enumerate(plans):
        texts = render(plan)
        seen = by_running(texts) if texts else None
        if texts and seen is not None:
            programs[f"p{number}"] = plan, texts, seen
    with tempfile.TemporaryDirectory() as folder:
        told = read(Path(folder), {name: texts for name, (_, texts, _) in programs.items()})
    found = [(plan, disagreement(told[name], seen)) for name, (plan, _, seen) in programs.items()]
    return [(plan, words) for plan, words in found if words]


def rules_in(words: list[str]) -> list[str]:
    """Which side said what, wherever: what has to stay as a program shrinks."""
    return sorted({" ".join(word.split()[2:4]) for word in words})


def smallest(plan: Plan, words: list[str]) -> str:
    """The plainest program on which they differ in the same way."""

    def first_of(plans: list[Plan]) -> Plan | None:
        found = disagreements(plans)
        return next((one for one, now in found if rules_in(now) == rules_in(words)), None)

    least = shrink(plan, first_of)
    told = disagreements([least])[0][1]
    choices = ", ".join(f"{name}={option}" for name, option in least.items() if option)
    return "\n".join([*told, choices, *(render(least) or {}).values()])


def same_on(seeds: range) -> None:
    found = disagreements(map(draw, seeds))
    assert not found, f"{len(found)} of {len(seeds)} differ, for instance:\n{smallest(*found[0])}"


def test_reading_and_running_agree_on_a_few_loops() -> None:
    same_on(range(FEW))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(FEW, MANY, AT_ONCE))
def test_reading_and_running_agree_on_many_loops(start: int) -> None:
    same_on(range(start, min(start + AT_ONCE, MANY)))


def plain_but(choices: Plan) -> Plan:
    table = SINGLE if choices.keys() <= SINGLE.keys() else PAIR
    return {name: choices.get(name, options[0]) for name, options in table.items()}


def test_what_once_differed_does_no_longer() -> None:
    assert disagreements(map(plain_but, MENDED)) == []


def test_what_is_at_fault_nearby_is_still_told_by_both() -> None:
    for choices, rule in STILL_TOLD:
        plan = plain_but(choices)

        seen = by_running(render(plan) or {})

        assert rule in {verdict.rule for verdict in seen or ()}
        assert disagreements([plan]) == []


def test_drawn_loops_run_and_hold_faults_and_right_ones() -> None:
    seen = [by_running(texts) for texts in map(render, map(draw, range(400))) if texts]

    assert any(seen)
    assert set() in seen
    assert seen.count(None) < len(seen) / 10  # those that PyTorch refuses, mostly by its scaler


def test_the_comparison_can_fail() -> None:
    assert disagreement({Verdict("GK101", SCRIPT, 9)}, set())
    assert disagreement(set(), {Verdict("GK101", SCRIPT, 9)})
    assert not disagreement({Verdict("GK203", SCRIPT, 9, certain=False)}, set())
