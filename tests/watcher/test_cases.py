"""The labelled scripts of tests/cases, run under watch: what is at fault is found, nothing else.

Each script runs in a fork of this process, which has imported torch already: its seeds, patches
and working folder are its own.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from gradkeeper.model import Finding
from gradkeeper.watcher import Watch

CASES = Path(__file__).parent.parent / "cases"
SCRIPTS = sorted(CASES.glob("*/*.py"))
EVERY = 4
"""One script in so many runs by default, all of them with --slow."""
BATCHES_OF_ONE = "rounds of an inner loop without loader or step may be time steps of one batch"
UNSEEN: dict[str, str] = {
    "embeddings_never_step": "each backward is spent by the other optimizer, as in a right GAN",
    "inner_range_window": BATCHES_OF_ONE,
    "masked_words": BATCHES_OF_ONE,
}


def cases() -> list[Any]:
    found = []
    for place, script in enumerate(SCRIPTS):
        marks = [pytest.mark.slow] if place % EVERY and script.stem not in UNSEEN else []
        if script.stem in UNSEEN:
            marks.append(pytest.mark.xfail(reason=UNSEEN[script.stem], strict=True))
        found.append(pytest.param(script, id=f"{script.parent.name}-{script.stem}", marks=marks))
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each script runs in a fork")
@pytest.mark.parametrize("script", cases())
def test_a_script_is_judged_as_its_label_says(script: Path, tmp_path: Path) -> None:
    label = json.loads(script.with_suffix(".json").read_text())
    expected = [one for one in label["expect"] if one["runtime"]]
    allowed = {one["rule"] for one in label["expect"]} | set(label["also_ok"])

    # A fault that only the linter tells may be one that ends the script.
    found = watched(script, tmp_path, ends=not expected and bool(label["expect"]))

    missed = [one for one in expected if not any(_meets(one, *alarm) for alarm in found)]
    beyond = [(rule, line) for rule, line in found if rule not in allowed]
    assert not missed, f"not found, only {found}"
    assert not beyond


def test_every_unseen_script_is_there() -> None:
    assert set(UNSEEN) <= {script.stem for script in SCRIPTS}


def _meets(expected: dict[str, Any], rule: str, line: int) -> bool:
    return rule == expected["rule"] and line in expected["lines"]


def watched(script: Path, folder: Path, *, ends: bool) -> list[tuple[str, int]]:
    """The errors and warnings of a script that runs in a process of its own.

    `ends`: an exception of the script's own is part of the case.
    """
    answer = folder / "answer.json"
    with warnings.catch_warnings():
        # Threads of torch are idle here, and the child starts none before it ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _in_child(script, folder, answer, ends=ends)
    os.waitpid(child, 0)
    told = json.loads(answer.read_text())
    assert "error" not in told, told["error"]
    return [(rule, line) for rule, line in told["found"]]


def _in_child(script: Path, folder: Path, answer: Path, *, ends: bool) -> None:
    """Never returns: what pytest would do after it is the parent's business."""
    try:
        told: dict[str, Any] = {"found": [_brief(one) for one in _run(script, folder, ends=ends)]}
    except BaseException:
        told = {"error": traceback.format_exc()}
    answer.write_text(json.dumps(told))
    os._exit(0)


def _run(script: Path, folder: Path, *, ends: bool) -> list[Finding]:
    os.chdir(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.argv = [str(script)]
    own = (f"{script.parent}{os.sep}",)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        watch = Watch(on_finding="record", own=own)
        with contextlib.suppress(*((Exception,) if ends else ())), watch:
            runpy.run_path(str(script), run_name="__main__")
    return watch.findings


def _brief(finding: Finding) -> tuple[str, int]:
    return finding.rule, finding.site.line
