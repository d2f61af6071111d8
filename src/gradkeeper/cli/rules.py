"""`gradkeeper rules`: the catalogue, a line each."""

import argparse

NAME = "rules"
HELP = "list the rules"


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    from gradkeeper.rules import ALL

    width = max(len(rule.name) for rule in ALL)
    for rule in ALL:
        print(f"{rule.code}  {rule.name:<{width}}  {rule.severity:<7}  {rule.summary}")
    return 0
