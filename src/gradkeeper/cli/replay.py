"""`gradkeeper replay TAPE`: judges a recorded tape again, without the job that made it."""

import argparse
from pathlib import Path

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.output import (
    add_output_options,
    add_report_option,
    add_terminal_options,
    counted,
    write_findings,
    write_statement,
)
from gradkeeper.model import Findings, TapeError, audit
from gradkeeper.model.tape import read_file

NAME = "replay"
HELP = "report again from a recorded tape, without the job"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tape", type=Path, help="a tape, as `gradkeeper run --tape` writes it")
    add_output_options(parser)
    add_terminal_options(parser)
    add_report_option(parser)


def run(args: argparse.Namespace) -> int:
    from gradkeeper.rules import ALL

    try:
        findings = Findings(audit(read_file(args.tape), ALL))
    except TapeError as error:
        raise CliError(f"{args.tape}: {error}") from None
    except OSError as error:
        raise CliError(f"{args.tape}: {error.strerror}") from None
    if args.report is not None:
        write_statement(read_file(args.tape), findings, args, title=args.tape.name)
    shown = counted(findings)
    write_findings(shown, args)
    return 1 if shown else 0
