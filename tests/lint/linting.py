"""What the tests of the linter share."""

from textwrap import dedent

from gradkeeper.lint import check_source
from gradkeeper.model.finding import Finding, Severity
from gradkeeper.rules import ALL

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""


def findings(code: str) -> list[Finding]:
    return check_source(dedent(code), "train.py", ALL, fixes=False).findings


def told(code: str) -> list[str]:
    """The codes of errors and warnings, in order of their lines."""
    return [one.rule for one in findings(code) if one.severity is not Severity.INFO]


def possible(code: str) -> set[str]:
    return {one.rule for one in findings(code) if not one.certain}


def loop(body: str, *, over: str = "for x in loader:", head: str = HEAD) -> str:
    """A training loop with this body, after a model and an optimizer."""
    lines = dedent(body).strip("\n").splitlines()
    return head + over + "\n" + "\n".join(f"    {line}" for line in lines) + "\n"
