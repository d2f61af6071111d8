"""What others have published about faults of training loops, beside what `gradkeeper check` says.

Usage: scripts/bench outside FOLDER

FOLDER holds checkouts of OrderLab/TrainCheck-Evaluation-Workloads (silent errors, and programs
that are right), KamruzzamanAsif/SpecDetect4AI-B903 (lines where gradients are said not to be
cleared), usazehan/pytorch-debug-assistant (questions of Stack Overflow), each under its name, or
some of them. In mutants/ there is clean/ with public files that are right, as owner+name/path, and
beside it a folder for each fault that was planted in them, zero_grad_left_out/ and so on.
Their code is read where it lies, and never kept here. What is said of a case in words is our
reading of it.
"""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradkeeper.lint import Checked, check_source
from gradkeeper.lint.check import check_files
from gradkeeper.lint.files import find
from gradkeeper.model.finding import Severity
from gradkeeper.rules import ALL

TRAINCHECK = "TrainCheck-Evaluation-Workloads"
SPECDETECT = "SpecDetect4AI-B903"
QUESTIONS = "pytorch-debug-assistant"
SCRIPTS = Path("silent-issue-detection/bug-reprod-scripts")
ERRORS = {
    "stackoverflow-60335387": ("zero_grad is missing", "bug.py", "fixed.py"),
    "pytorch-forum-84911": ("layers frozen by mistake", "bug.py", "fixed.py"),
    "x-jxmnop-ddp-out-of-sync": ("wrapped in DDP at every other step", "bug.py", "correct.py"),
}
"""The faults of user code among the published ones; the others lie in libraries."""
NOT_PROGRAMS = ("trace_",)
"""Folders in which a tool left its traces."""
TRUTH = Path("Evaluation/Ground_Truth_Construction_Process/Ground_Truth_CodeSmile")
NOT_CLEARED = "R9"
READ = {
    "EvalID_25": "a loss that is called by somebody else's loop",
    "EvalID_26": "`p.grad = None` in the function that steps",
    "EvalID_27": "reads gradients; there is no optimizer",
    "EvalID_28": "an attack: gradients of the input",
    "EvalID_29": "zeroed right after the step",
    "EvalID_30": "zeroed each time, and never stepped: another fault, missed",
    "EvalID_31": "measures time; there is no optimizer",
    "EvalID_32": "zeroed between the two backward calls",
    "EvalID_63": "a layer of its own kind; there is no optimizer here",
    "EvalID_99": "nothing is ever zeroed: each step applies all gradients so far",
}
ASKED = {
    26: "as written, every step but the first applies the losses before it again",
    224: "what is zeroed, `optimizer_net`, is not what is stepped, `optimizer`",
}
MUTANTS = "mutants"
PLANTED = {
    "zero_grad left out": {"GK101", "GK104", "GK602"},
    "zero_grad moved before step": {"GK102", "GK103"},
    "step left out": {"GK102", "GK107"},
    "unscale_ left out": {"GK301"},
    "clip after step": {"GK304"},
    "clip before backward": {"GK304"},
    "step before backward": {"GK101", "GK102", "GK103"},
}
"""One change for each file, all over it, and the rules of which one should say so."""
FENCE = re.compile(r"```\n(.*?)\n```", re.S)


def told(checked: Checked) -> str:
    """Rules and lines, as errors and warnings."""
    found = [one for one in checked.findings if one.severity is not Severity.INFO]
    return ", ".join(f"{one.rule} (line {one.line})" for one in found)


def check(*paths: Path) -> dict[str, Checked]:
    return dict(check_files(list(find(map(str, paths))), fixes=False))


def commit(folder: Path) -> str:
    words = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    names = list(columns)
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def silent_errors(folder: Path) -> Iterator[tuple[str, ...]]:
    for name, (fault, wrong, right) in ERRORS.items():
        place = folder / SCRIPTS / name
        bad, good = place / wrong, place / right
        found, twin = (told(check(one)[str(one)]) for one in (bad, good))
        kept = folder / "silent-issue-detection/reference_checker_output" / f"trace_{name}"
        theirs = "told" if kept.exists() else "none kept"
        yield name, fault, theirs, found or "nothing", twin or "nothing"


def correct_programs(folder: Path) -> tuple[int, int, int, list[str]]:
    """How many, their loops, those rehearsed to a step, and what is said of them."""
    programs = [
        one
        for one in sorted((folder / "fp_rate" / "workloads").iterdir())
        if one.is_dir() and not one.name.startswith(NOT_PROGRAMS)
    ]
    results = [(one.name, checked) for one in programs for checked in check(one).values()]
    loops = sum(checked.loops for _, checked in results)
    rehearsed = sum(checked.rehearsed for _, checked in results)
    said = [f"{name}: {told(checked)}" for name, checked in results if told(checked)]
    return len(programs), loops, rehearsed, said


def not_cleared(folder: Path) -> Iterator[tuple[str, ...]]:
    """The lines that their authors found to be true, by file."""
    with (folder / TRUTH / "GT_CodeSmile_Reviewed.csv").open(encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    lines: dict[str, list[str]] = {}
    for row in rows:
        if row["Rule_ID"] == NOT_CLEARED and row["New_Type"] == "True_Positive":
            lines.setdefault(row["File"].removeprefix("./"), []).append(row["Line"])
    for name, places in sorted(lines.items()):
        (path,) = (folder / TRUTH / "CodeSmile-Validation" / "experimental_kits").glob(f"*/{name}")
        _, case, file = name.split("/")
        said = told(check(path)[str(path)]) or "nothing"
        yield f"{case}/{file}", ", ".join(places), said, READ.get(case, "not read yet")


def published(folder: Path) -> str:
    """F1 for this rule, as their table has it."""
    file = folder / "Evaluation/Comparison_Other_Tools/Per-Rule_F1_Score_Table_Per_Approach.csv"
    with file.open(encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    (row,) = (row for row in rows if row["Rule"] == NOT_CLEARED)
    return ", ".join(f"{name} {value}" for name, value in row.items() if name != "Rule")


def questions(folder: Path) -> tuple[int, int, int, list[str]]:
    """Loops that people asked about; those that can be read, those rehearsed, what is said."""
    lines = (folder / "data/processed/dataset.jsonl").read_text().splitlines()
    asked = read = rehearsed = 0
    said = []
    for number, line in enumerate(lines, 1):
        text = json.loads(line)["input"]
        for block in FENCE.findall(text):
            if ".backward(" not in block or ".step(" not in block:
                continue
            asked += 1
            checked = check_source(block, "question.py", ALL, fixes=False)
            if any(one.rule == "GK000" for one in checked.findings):
                continue
            read += 1
            rehearsed += bool(checked.rehearsed)
            if told(checked):
                reading = ASKED.get(number, "not read yet")
                said.append(f"question {number}: {told(checked)}: {reading}")
    return asked, read, rehearsed, said


def rules_by_file(folder: Path) -> dict[str, set[str]]:
    """The errors and warnings of each file; repositories are told apart, as they are projects."""
    found: dict[str, set[str]] = {}
    for repository in sorted(folder.iterdir()):
        for path, checked in check(repository).items():
            loud = {one.rule for one in checked.findings if one.severity is not Severity.INFO}
            found[str(Path(path).relative_to(folder))] = loud
    return found


def planted(folder: Path) -> Iterator[tuple[str, ...]]:
    """Faults of each kind, and how many of them a fitting rule tells, of which it was silent."""
    clean = rules_by_file(folder / "clean")
    all_made = all_told = 0
    for fault, fitting in PLANTED.items():
        made = rules_by_file(folder / fault.replace(" ", "_"))
        told_of = sum(bool((rules - clean[file]) & fitting) for file, rules in made.items())
        all_made, all_told = all_made + len(made), all_told + told_of
        yield fault, str(len(made)), f"{told_of} ({told_of / len(made):.0%})"
    yield "all", str(all_made), f"{all_told} ({all_told / all_made:.0%})"


def tell_silent_errors(folder: Path) -> None:
    print(f"OrderLab/{TRAINCHECK} at {commit(folder)}: published errors of user code.")
    print(
        "TrainCheck watches a run, after it has learnt from right ones; check reads the source.\n"
    )
    columns = ("case", "fault", "TrainCheck's output", "check of the wrong one", "of the right one")
    table(columns, silent_errors(folder))
    programs, loops, rehearsed, said = correct_programs(folder)
    print(
        f"\n{programs} correct programs: {loops} training loops, {rehearsed} rehearsed to a step;"
    )
    print("\n".join(said) or "nothing said of any of them.")


def tell_not_cleared(folder: Path) -> None:
    print(f"\nKamruzzamanAsif/{SPECDETECT} at {commit(folder)}: gradients not cleared.")
    print(f"Published F1: {published(folder)}.\n")
    table(("file", "lines they call true", "check says", "our reading"), not_cleared(folder))


def tell_questions(folder: Path) -> None:
    asked, read, rehearsed, said = questions(folder)
    print(f"\nusazehan/{QUESTIONS} at {commit(folder)}: {asked} loops in questions;")
    print(f"{read} can be read as Python, {rehearsed} rehearsed to a step.")
    print("\n".join(said) or "Nothing said of any.")


def tell_planted(folder: Path) -> None:
    count = sum(1 for _ in (folder / "clean").iterdir())
    print(f"\nFaults planted in clean files of {count} public repositories, one kind at a time;")
    print("some do no harm where they fell, or are out of sight in the one file.\n")
    table(("fault", "planted", "told"), planted(folder))


SECTIONS = {
    TRAINCHECK: tell_silent_errors,
    SPECDETECT: tell_not_cleared,
    QUESTIONS: tell_questions,
    MUTANTS: tell_planted,
}


def main(words: list[str]) -> int:
    there = [name for name in SECTIONS if (Path(words[0]) / name).is_dir()] if words else []
    if len(words) != 1 or not there:
        print("usage: scripts/bench outside FOLDER", file=sys.stderr)
        return 2
    for name in there:
        SECTIONS[name](Path(words[0]) / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
