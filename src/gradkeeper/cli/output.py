"""The options and the writing that commands which report findings share."""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from gradkeeper.cli.errors import CliError
from gradkeeper.model import Finding, Severity
from gradkeeper.report import FORMATS


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="how findings are written (text)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to (standard output)")


def counted(findings: Iterable[Finding]) -> list[Finding]:
    """What is shown by default: errors and warnings."""
    return [finding for finding in findings if finding.severity is not Severity.INFO]


def write_findings(findings: Iterable[Finding], args: argparse.Namespace) -> None:
    text = FORMATS[args.format](findings)
    if args.output is None:
        sys.stdout.write(text)
        return
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{args.output} cannot be written: {error.strerror}") from None
