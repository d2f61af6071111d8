"""`gradkeeper server`: the linter inside an editor, as a language server. Needs no torch."""

import argparse

from gradkeeper.cli.errors import CliError
from gradkeeper.extras import INSTALL_LSP

NAME = "server"
HELP = "check while you type: a language server, for editors to start"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "It talks over standard input and output, in the Language Server Protocol."
    parser.add_argument(
        "--stdio", action="store_true", help="as it does anyway; some editors insist on saying so"
    )
    parser.add_argument(
        "--pause",
        type=_milliseconds,
        default=300,
        metavar="MS",
        help="how long nothing must be typed before it checks (300)",
    )


def run(args: argparse.Namespace) -> int:
    try:
        from gradkeeper.server.service import start
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "gradkeeper":
            raise
        raise CliError(f"needs {error.name}: {INSTALL_LSP}") from None
    start(args.pause / 1000)
    return 0


def _milliseconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: a number of milliseconds")
    return int(text)
