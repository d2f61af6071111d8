"""The command line: one module per command, each with NAME, HELP, configure and run.

A command is imported when it is named, and imports what it needs when it runs, so that
`gradkeeper check` waits neither for torch nor for the other commands.

check         rehearses training code without running it
rechecking    what `check --watch` does: again whenever a file has changed
fixing        what `check --fix` does to files, and what `check --diff` shows of it
server        the linter inside an editor
run           runs a training script under watch
exits         every way out of a watched script: what was seen is written first
ranks         `run` under torchrun: rank 0 writes for all
replay        judges a recorded tape again
explain       a rule's document
rules         the catalogue, a line each
checkpoint    what a checkpoint holds, whether it is whole, how two differ
prove_resume  whether a script resumes exactly after kills
doctor        what stands in the way of a resume that is equal bit for bit
demo          three bugs, a kill and a statement, shown
output        options and writing that commands which report findings share
parser        help, and what is said of words that no command takes
progress      a bar for commands that take a while
streams       standard streams that nobody may read any more
tracebacks    of the user's program, without the lines of ours
errors        what ends a command with a message and exit code 2
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.parser import Parser, no_such_command
from gradkeeper.cli.streams import complain, settle

COMMANDS = (
    "check",
    "run",
    "explain",
    "rules",
    "replay",
    "checkpoint",
    "prove-resume",
    "doctor",
    "server",
    "demo",
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = _run(given)
    except SystemExit:  # of the parser, which has said what is wrong, or how it is used
        settle()
        raise
    return code if settle() else 2


def _run(given: Sequence[str]) -> int:
    parser = build_parser(given)
    if not given:
        parser.print_help(sys.stderr)
        return 2
    if given[0] not in COMMANDS and given[0] not in parser.option_words():
        no_such_command(parser, given[0], COMMANDS)
    args, unknown = parser.parse_known_args(given)
    if unknown:
        args.parser.no_such_option(unknown)
    try:
        return int(args.run(args))
    except CliError as error:
        complain(f"gradkeeper {args.command}: {error}")
        return 2
    except BrokenPipeError:
        # The reader (head, less) has gone, of a command that only has words to tell.
        return 0


def build_parser(arguments: Sequence[str] = ()) -> Parser:
    """The parser for these arguments; unless they begin with a command, it knows all of them."""
    from gradkeeper import __version__

    parser = Parser(
        prog="gradkeeper",
        description="Every gradient a loss produces should reach the weights exactly once.",
        epilog="Begin with `gradkeeper check` in the folder of your code: it runs none of it.",
    )
    parser.add_argument("--version", action="version", version=f"gradkeeper {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = [name for name in COMMANDS if name in arguments[:1]]
    for command in map(load, named or COMMANDS):
        subparser = commands.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.configure(subparser)
        # which tells how the command is used
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def load(name: str) -> Any:
    """The module of a command."""
    return import_module(f"gradkeeper.cli.{name.replace('-', '_')}")
