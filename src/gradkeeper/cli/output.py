"""The options and the writing that commands which report findings share."""

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import tell
from gradkeeper.model import Finding
from gradkeeper.report import FORMATS
from gradkeeper.report.paint import CHOICES, paint_for

if TYPE_CHECKING:
    from pathlib import Path

    from gradkeeper.model import Event


def as_path(text: str) -> "Path":
    """For options: most commands are given no path, and need not load what paths are made of."""
    from pathlib import Path

    return Path(text)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="how findings are written (text)"
    )
    parser.add_argument("--output", type=as_path, metavar="FILE", help="where to (standard output)")


def add_terminal_options(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="say what was found, and nothing else"
    )
    parser.add_argument(
        "--color", choices=CHOICES, default="auto", help="auto: on a terminal, unless NO_COLOR"
    )


def add_report_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report",
        type=as_path,
        metavar="PAGE.html",
        help="write the statement, a web page: what each step applied, and every finding",
    )


def rendered(
    findings: Iterable[Finding],
    args: argparse.Namespace,
    stream: TextIO | None,
    *,
    nothing: str = "",
) -> str:
    """As the options ask; coloured only where a person reads it."""
    if args.format != "text":
        return rendered_as(args.format, findings)
    from gradkeeper.report import text

    paint = paint_for(stream, args.color)
    return text.render(findings, paint=paint, quiet=args.quiet, nothing=nothing)


def rendered_as(name: str, findings: Iterable[Finding]) -> str:
    """In one of the formats, for a file or for another program."""
    if name == "sarif":
        from gradkeeper.report import sarif
        from gradkeeper.rules import ALL

        return sarif.render(findings, ALL)
    return FORMATS[name](findings)


def write_findings(
    findings: Iterable[Finding], args: argparse.Namespace, *, nothing: str = ""
) -> None:
    """`nothing` is what is said where there are none, if there is more to say than that."""
    if args.output is None:
        tell(rendered(findings, args, sys.stdout, nothing=nothing))
        return
    write_file(args.output, rendered(findings, args, None, nothing=nothing))


def write_file(path: "Path", content: str) -> None:
    try:
        # A file name may hold bytes that are no UTF-8: better a question mark than no report.
        path.write_text(content, encoding="utf-8", errors="replace")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None


def write_statement(
    tape: "Iterable[Event]",
    findings: Iterable[Finding],
    args: argparse.Namespace,
    *,
    title: str,
    how: str = "",
) -> None:
    """`how` the script ended, if not well."""
    from gradkeeper.report.statement import statement
    from gradkeeper.rules import ALL

    write_file(args.report, statement(tape, ALL, findings, title=title, how=how))
    if not args.quiet:
        print(f"gradkeeper: the statement is in {args.report}", file=sys.stderr)
