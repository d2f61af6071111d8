"""The actions of this repository, their steps run as GitHub's runner would run them."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.integrations.github_runner import Ran, run_action
from tests.integrations.test_hooks import STALE
from tests.prove.recipe import RECIPE
from tests.report.sarif_schema import SCHEMA

ROOT = Path(__file__).parents[2]
MENDED = STALE.replace("    model(x)", "    optimizer.zero_grad()\n    model(x)")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository, checked out, with a fault in one of its folders."""
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "src" / "train it.py").write_text(STALE)
    return tmp_path / "project"


def checked(project: Path, **given: str) -> Ran:
    return run_action(ROOT, project, {"python": sys.executable, **given})


def test_a_finding_is_annotated_uploaded_told_and_fails_the_job(project: Path) -> None:
    ran = checked(project)

    assert ran.log.startswith(
        "::error file=src/train it.py,line=7,col=5,title=GK101 stale-gradient"
    )
    [(used, handed)] = ran.used
    assert used.startswith("github/codeql-action/upload-sarif@")
    report = json.loads(Path(handed["sarif_file"]).read_text())
    assert list(Draft202012Validator(SCHEMA).iter_errors(report)) == []
    [result] = report["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "src/train%20it.py"
    assert "src/train it.py:7:5  GK101 stale-gradient" in ran.summary
    assert ran.outputs == {"sarif": handed["sarif_file"], "exit-code": "1"}
    assert ran.code == 1


def test_a_clean_project_passes_and_clears_its_alerts(project: Path) -> None:
    (project / "src" / "train it.py").write_text(MENDED)

    ran = checked(project)

    assert (ran.code, ran.log, ran.errors) == (0, "", "")
    [(_, handed)] = ran.used
    assert json.loads(Path(handed["sarif_file"]).read_text())["runs"][0]["results"] == []


def test_what_is_not_wanted_is_not_done(project: Path) -> None:
    ran = checked(project, annotate="false", upload="false", fail="false")

    assert ran.code == 0
    assert ran.used == []
    assert "::error" not in ran.log
    assert "GK101 stale-gradient" in ran.log


def test_paths_options_and_a_baseline_are_handed_on(project: Path) -> None:
    (project / "other.py").write_text(STALE)
    accepted = project / "accepted.json"
    options = f"--write-baseline {accepted.name}"
    assert checked(project, paths="other.py", options=options).code == 0

    ran = checked(project, paths="src\nother.py", baseline=accepted.name)

    assert "train it.py" in ran.log
    assert "other.py" not in ran.log


def test_a_check_that_cannot_run_fails_also_where_findings_do_not(project: Path) -> None:
    ran = checked(project, paths="nowhere", fail="false")

    assert ran.code == 2
    assert ran.used == []
    assert "there is no file or folder nowhere" in ran.errors


def test_a_folder_of_the_project_that_has_our_name_is_not_run(project: Path) -> None:
    (project / "gradkeeper").mkdir()
    (project / "gradkeeper" / "__main__.py").write_text("raise SystemExit('hijacked')")

    assert "GK101" in checked(project).log


def test_words_of_an_input_are_never_run(project: Path) -> None:
    checked(project, paths="$(touch ran) `touch ran` ; touch ran", options="; touch ran")

    assert not (project / "ran").exists()


def test_an_old_python_is_told_what_to_do(project: Path, tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)

    ran = run_action(ROOT, project, {"python": str(old)})

    assert ran.code == 2
    assert "needs Python 3.11 or newer: put actions/setup-python before it" in ran.log


def test_the_workflows_of_the_guide_use_what_is_there() -> None:
    page = (ROOT / "docs" / "guide" / "integrations.md").read_text()
    workflows = [yaml.safe_load(one) for one in re.findall(r"```yaml\n(name: .*?)```", page, re.S)]
    steps = [step for flow in workflows for job in flow["jobs"].values() for step in job["steps"]]
    ours = [step for step in steps if step.get("uses", "").startswith("OWNER/gradkeeper")]

    assert len(ours) == 2
    for step in ours:
        folder = step["uses"].removeprefix("OWNER/gradkeeper").split("@")[0].strip("/")
        inputs = yaml.safe_load((ROOT / folder / "action.yml").read_text())["inputs"]
        assert set(step.get("with", {})) <= set(inputs)
    assert workflows[0]["permissions"]["security-events"] == "write"


@pytest.mark.parametrize("place", ["action.yml", "prove-resume/action.yml"])
def test_no_input_stands_inside_a_script(place: str) -> None:
    for step in yaml.safe_load((ROOT / place).read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_a_script_that_resumes_exactly_gets_a_green_badge(tmp_path: Path) -> None:
    ran = proven(tmp_path, RECIPE)

    assert ran.code == 0, ran.errors
    assert ran.outputs == {"exact": "true", "badge": "resume.svg"}
    assert said_by(tmp_path / "project" / "resume.svg") == "resume: exact, 1 kill"
    assert "equal bit for bit" in ran.summary


def test_a_script_that_cannot_be_judged_gets_a_grey_one(tmp_path: Path) -> None:
    ran = proven(tmp_path, "print('nothing to train')")

    assert ran.code == 2
    assert "no optimizer took a step" in ran.errors
    assert ran.outputs == {"exact": "false", "badge": "resume.svg"}
    assert said_by(tmp_path / "project" / "resume.svg") == "resume: unknown"


def proven(tmp_path: Path, script: str) -> Ran:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(script)
    given = {"python": sys.executable, "command": f"{sys.executable} train.py", "kills": "1"}
    return run_action(ROOT / "prove-resume", project, given)


def said_by(badge: Path) -> str:
    found = re.search(r"<title>(.+?)</title>", badge.read_text())
    assert found
    return found[1]
