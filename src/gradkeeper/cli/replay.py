"""`gradkeeper replay TAPE`: judges a recorded tape again, without the job that made it."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.output import (
    add_output_options,
    add_report_option,
    add_terminal_options,
    write_findings,
    write_statement,
)
from gradkeeper.model import Event, Findings, TapeError, audit
from gradkeeper.model.events import Backward, Move, Step
from gradkeeper.model.tape import read_file

NAME = "replay"
TRAINING = {Backward, Step, Move}
UNTRAINED = "no training was seen: the tape holds no backward and no step"
HELP = "report again from a recorded tape, without the job"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tape", type=Path, help="a tape, as `gradkeeper run --tape` writes it")
    add_output_options(parser)
    add_terminal_options(parser)
    add_report_option(parser)


def run(args: argparse.Namespace) -> int:
    from gradkeeper.rules import ALL

    kinds: set[type[Event]] = set()

    def events() -> Iterator[Event]:
        for event in read_file(args.tape):
            kinds.add(type(event))
            yield event

    try:
        findings = Findings(audit(events(), ALL))
    except TapeError as error:
        raise CliError(f"{args.tape}: {error}") from None
    except OSError as error:
        raise CliError(f"{args.tape}: {error.strerror}") from None
    if args.report is not None:
        write_statement(read_file(args.tape), findings, args, title=args.tape.name)
    shown = [finding for finding in findings if finding.counts]
    write_findings(shown, args, nothing="" if kinds & TRAINING else UNTRAINED)
    return 1 if shown else 0
