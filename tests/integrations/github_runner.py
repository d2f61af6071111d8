"""Runs the steps of a composite action as GitHub's runner would, as far as ours need it.

Scripts run by `bash --noprofile --norc -eo pipefail`; outputs, summaries and the place of the
action come by files and variables of the names that the runner uses. A step that uses another
action is not run: what it was handed is kept.
"""

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{(.+?)\}\}")
COMPARED = re.compile(r"^(.+?)\s*(==|!=)\s*(.+)$")


@dataclass
class Ran:
    """What came of an action."""

    code: int = 0
    log: str = ""
    errors: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    used: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    summary: str = ""


class Context:
    """What expressions may speak of."""

    def __init__(self, inputs: dict[str, str]) -> None:
        self.inputs = inputs
        self.steps: dict[str, dict[str, str]] = {}

    def filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self.value(found[1].strip()), text)

    def holds(self, condition: str) -> bool:
        inner = EXPRESSION.fullmatch(condition.strip())
        parts = (inner[1] if inner else condition).split("&&")
        return all(self._one(part.strip()) for part in parts)

    def _one(self, condition: str) -> bool:
        compared = COMPARED.match(condition)
        assert compared, f"the runner of the tests does not know {condition!r}"
        same = self.value(compared[1]) == self.value(compared[3])
        return same == (compared[2] == "==")

    def value(self, name: str) -> str:
        if name[0] == name[-1] == "'":
            return name[1:-1]
        match name.split("."):
            case ["inputs", one]:
                return self.inputs[one]
            case ["steps", step, "outputs", one]:
                return self.steps.get(step, {}).get(one, "")
        raise AssertionError(f"the runner of the tests does not know {name!r}")


def run_action(folder: Path, workspace: Path, given: dict[str, str], **more: str) -> Ran:
    """The action in this folder, in a job whose repository is checked out in `workspace`."""
    action = yaml.safe_load((folder / "action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    assert not set(given) - set(action["inputs"]), "the runner warns of inputs that are not there"
    context = Context(_inputs(action, given))
    ran = Ran()
    temp = workspace.parent / "temp"
    temp.mkdir(exist_ok=True)
    summary = temp / "summary"
    for number, step in enumerate(action["runs"]["steps"]):
        if not context.holds(step.get("if", "'' == ''")):
            continue
        if "uses" in step:
            handed = {key: context.filled(value) for key, value in step["with"].items()}
            ran.used.append((step["uses"], handed))
            continue
        output = temp / f"output-{number}"
        output.touch()
        runner = {
            "GITHUB_ACTION_PATH": str(folder),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(temp),
        }
        done = _run_step(step, context, workspace, runner | more)
        ran.log += done.stdout
        ran.errors += done.stderr
        written = (line.partition("=")[::2] for line in output.read_text().splitlines())
        context.steps[step.get("id", "")] = dict(written)
        if done.returncode:
            ran.code = done.returncode
            break
    ran.outputs = {
        name: context.filled(output["value"]) for name, output in action["outputs"].items()
    }
    ran.summary = summary.read_text() if summary.exists() else ""
    return ran


def _inputs(action: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    values = {}
    for name, declared in action["inputs"].items():
        assert name in given or not declared.get("required"), f"{name} is required"
        values[name] = given.get(name, declared.get("default", ""))
        assert isinstance(values[name], str), f"{name}: an input is text"
    return values


def _run_step(
    step: dict[str, Any], context: Context, workspace: Path, runner: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    assert step["shell"] == "bash", "a step of a composite action names its shell"
    script = Path(runner["RUNNER_TEMP"]) / "step.sh"
    script.write_text(context.filled(step["run"]))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables = {name: context.filled(str(value)) for name, value in step.get("env", {}).items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=workspace,
        env={**clean, **runner, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
