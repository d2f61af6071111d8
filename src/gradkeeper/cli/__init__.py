"""The command line: one module per command, each with NAME, HELP, configure and run.

A command imports what it needs when it runs, so that `gradkeeper check` never waits for torch.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from gradkeeper.cli import check, checkpoint, demo, explain, prove_resume, replay, rules, run
from gradkeeper.cli.errors import CliError

COMMANDS = (check, run, explain, rules, replay, checkpoint, prove_resume, demo)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = build_parser()
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except CliError as error:
        print(f"gradkeeper {args.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has gone: end quietly, and keep Python from flushing into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def build_parser() -> argparse.ArgumentParser:
    from gradkeeper import __version__

    parser = argparse.ArgumentParser(
        prog="gradkeeper",
        description="Every gradient a loss produces should reach the weights exactly once.",
    )
    parser.add_argument("--version", action="version", version=f"gradkeeper {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.configure(one)
        one.set_defaults(run=command.run)
    return parser
