"""`gradkeeper explain GK101`: a rule's document."""

import argparse
import difflib
import re

from gradkeeper.cli.errors import CliError
from gradkeeper.model import Rule

NAME = "explain"
CODE = re.compile(r"GK\d{3}", re.IGNORECASE)
HELP = "explain a rule: what it finds, how to see it, how to fix it"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rule", metavar="RULE", help="a code or a name, such as GK101 or stale-gradient"
    )


def run(args: argparse.Namespace) -> int:
    from gradkeeper.report.rule_document import plain

    print(plain(find_rule(args.rule)), end="")
    return 0


def find_rule(wanted: str) -> Rule:
    from gradkeeper.rules import ALL

    by_word = {rule.code.lower(): rule for rule in ALL} | {rule.name: rule for rule in ALL}
    rule = by_word.get(wanted.lower())
    if rule is not None:
        return rule
    if CODE.fullmatch(wanted):
        # Well-formed, so not mistyped: the nearest number has nothing to do with it.
        raise CliError(f"there is no rule {wanted!r}; `gradkeeper rules` lists them")
    near = difflib.get_close_matches(wanted.lower(), by_word, n=1, cutoff=0.0)[0]
    nearest = by_word[near]
    raise CliError(
        f"there is no rule {wanted!r}; did you mean {nearest.code} ({nearest.name})? "
        "`gradkeeper rules` lists them"
    )
