"""What findings say: in torch's words, on one line, with a place or a name in it and a way out."""

import re
from pathlib import Path

import pytest

from gradkeeper.lint import check_source
from gradkeeper.model import Finding, Findings, Site
from gradkeeper.model.events import Adopt, Backward, Step
from gradkeeper.model.rule import Block, Rule
from gradkeeper.rules import ALL
from tests.rules.test_same_verdict import PYTORCH_SAYS_SO
from tests.script import Script
from tests.watcher.loops import run

BANNED = re.compile(
    r"\b(books?|ledger|settle[sd]?|in vain|ticks?|ticked|so far|has run)\b|#\d|\b\d+ times\b", re.I
)
"""The metaphor suits a page, not a line; counts and numbered names are of our own making."""
PLACE_OR_NAME = re.compile(r"line \d+|\.py:\d+|`[^`]+`|\w+_?\(|clip_grad_norm_|items|this call")
LONGEST = 100
NO_ACCOUNT = {"GK000", "GK306", "GK405", "GK505", "GK606"}
"""They speak of a file, of an iterator, of a loader, of a sampler, and of a variable."""
CASES = sorted((Path(__file__).parent.parent / "cases" / "bug").glob("*.py"))

BAD = [
    pytest.param(rule, block, id=rule.code)
    for rule in ALL
    for block in rule.blocks
    # One that needs several ranks is run under torchrun, and its words are compared there.
    if block.kind == "bad" and "init_process_group" not in block.code
]


def by_reading(code: str, rule: str | None = None, *, fixes: bool = False) -> list[Finding]:
    found = check_source(code, "block.py", ALL, fixes=fixes).findings
    return [one for one in found if rule in (None, one.rule)]


def by_running(code: str, rule: str, folder: Path) -> list[Finding]:
    watch = run(folder, code, header="").watch
    return [one for one in (*watch.findings, *watch.infos) if one.rule == rule]


def told(finding: Finding) -> list[str]:
    notes = [because.note for because in finding.because]
    return [finding.message, finding.detail, finding.remedy, *notes]


def complaints(finding: Finding) -> list[str]:
    """What a tired reader would stumble over."""
    found = [f"{text!r} speaks of {word[0]!r}" for text in told(finding) for word in bad(text)]
    if "\n" in finding.message or len(finding.message) > LONGEST:
        found.append(f"{finding.message!r} does not fit a line")
    if not PLACE_OR_NAME.search(finding.message) and finding.rule not in NO_ACCOUNT:
        found.append(f"{finding.message!r} names neither a line nor a variable")
    if not finding.detail.startswith("account `") and finding.rule not in NO_ACCOUNT:
        found.append(f"{finding.detail!r} names no account")
    if not finding.remedy:
        found.append("there is no way out")
    return found


def bad(text: str) -> list[re.Match[str]]:
    return list(BANNED.finditer(text))


@pytest.mark.filterwarnings(*PYTORCH_SAYS_SO)
@pytest.mark.parametrize(("rule", "block"), BAD)
def test_a_rule_speaks_torch_about_its_own_example(
    rule: Rule, block: Block, tmp_path: Path
) -> None:
    read = by_reading(block.code, rule.code) if block.side != "runtime" else []
    ran = by_running(block.code, rule.code, tmp_path) if block.side != "static" else []

    assert [*read, *ran]
    assert [words for one in (*read, *ran) for words in complaints(one)] == []


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_so_it_does_about_scripts_that_people_write(path: Path) -> None:
    found = by_reading(path.read_text(encoding="utf-8"))

    assert [words for one in found for words in complaints(one)] == []


def test_the_check_of_words_can_fail() -> None:
    (finding,) = by_reading(next(one.values[1].code for one in BAD if one.id == "GK101"))  # type: ignore[union-attr]

    ticking = Finding(
        rule="GK205",
        name="scheduler-out-of-step",
        severity=finding.severity,
        site=finding.site,
        message="ticks",
        detail="`optimizer#4` has run 2 times",
    )

    assert complaints(finding) == []
    assert len(complaints(ticking)) == 7


@pytest.mark.parametrize(("rule", "block"), BAD)
def test_a_remedy_says_what_the_fix_does(rule: Rule, block: Block) -> None:
    for finding in by_reading(block.code, rule.code, fixes=True):
        inserted = "".join(edit.text for edit in finding.fix.edits) if finding.fix else ""
        for call in re.findall(r"(\w+)\(", inserted):
            assert call in finding.remedy or "move it" in finding.remedy


def test_a_rehearsal_tells_no_counts_of_a_run() -> None:
    for parameter in BAD:
        block = parameter.values[1]
        assert isinstance(block, Block)
        for finding in by_reading(block.code) if block.side != "runtime" else ():
            assert (finding.count, finding.first_step, finding.last_step) == (1, None, None)


TWO_OF_A_NAME = """\
import torch
optimizer = SGD(generator)
optimizer = SGD(critic)
for x in loader:
    loss.backward()
    optimizer.step()
"""


def test_optimizers_that_share_a_name_are_told_apart_by_the_lines_that_built_them() -> None:
    script = Script(TWO_OF_A_NAME)
    for line, (optimizer, account) in enumerate((("optimizer", "g"), ("optimizer#2", "c")), 2):
        built = Site("block.py", line)
        script.tape.append(Adopt(site=built, optimizer=optimizer, accounts=(account,)))
    for _ in range(2):
        script.tape.append(Backward(site=Site("block.py", 5), accounts=("g", "c")))
        for optimizer in ("optimizer", "optimizer#2"):
            script.tape.append(Step(site=Site("block.py", 6), optimizer=optimizer))

    found = [one for one in Findings(script.findings()) if one.rule == "GK101"]

    (finding,) = found
    assert finding.detail == (
        "account `optimizer` of line 2: credited on 5, spent on 6, not zeroed since"
    )
    assert finding.remedy == "optimizer.zero_grad() right after the step"


def test_one_that_has_its_name_alone_needs_no_line() -> None:
    (finding,) = by_reading(next(one.values[1].code for one in BAD if one.id == "GK101"))  # type: ignore[union-attr]

    assert finding.detail.startswith("account `optimizer`: ")


SWAPPED_HEAD = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 4)
        self.fc2 = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.fc2(self.fc1(x))


def main():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.fc2 = torch.nn.Linear(4, 1)
    for x in torch.randn(6, 8, 4):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


main()
"""


def test_a_layer_without_optimizer_is_named_and_not_its_class(tmp_path: Path) -> None:
    (read,) = by_reading(SWAPPED_HEAD, "GK105")
    (ran,) = by_running(SWAPPED_HEAD, "GK105", tmp_path)

    assert read.message == "step() leaves `net.fc2` as it was: no optimizer owns it"
    assert ran.message == "step() leaves `Net.fc2` as it was: no optimizer owns it"
