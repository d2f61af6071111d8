"""`gradkeeper check`: rehearses training code without running it. Needs no torch."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.output import add_terminal_options, rendered
from gradkeeper.cli.streams import complain, tell

if TYPE_CHECKING:
    from gradkeeper.model.finding import Finding

NAME = "check"
HELP = "find lifecycle faults in training code, without running it"
STDIN = "-"
TELLING_FIXES = ("json", "sarif")


def configure(parser: argparse.ArgumentParser) -> None:
    from gradkeeper.report import FORMATS

    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders, - for stdin")
    parser.add_argument("--format", choices=FORMATS, default="text", help="text by default")
    parser.add_argument("--fix", action="store_true", help="apply the fixes that are safe")
    parser.add_argument("--unsafe-fixes", action="store_true", help="the others as well")
    parser.add_argument(
        "--diff",
        action="store_true",
        help="show what --fix would change, and change nothing; exit 1 if there are findings",
    )
    for option, text in (
        ("--select", "only these"),
        ("--extend-select", "these as well, infos included"),
        ("--ignore", "all but these"),
    ):
        parser.add_argument(
            option, action="append", default=[], metavar="CODES", help=f"rules: {text}"
        )
    add_terminal_options(parser)
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
    parser.add_argument("--statistics", action="store_true", help="how much was understood")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="tell only what is new")
    parser.add_argument("--write-baseline", type=Path, metavar="FILE", help="accept what is there")


def run(args: argparse.Namespace) -> int:
    selection = _selection(args)
    args.held = {}
    results = _check(args)
    _tell_unused(results)
    wanted = partial(_wanted, selection=selection, args=args)
    findings = wanted([one for _, checked in results for one in checked.findings], args.held)
    if args.write_baseline:
        return _write_baseline(findings, args)
    if args.diff:
        from gradkeeper.cli.fixing import show

        show(findings, wanted, args.held, unsafe=args.unsafe_fixes)
        return 1 if findings and not args.exit_zero else 0
    if args.fix or args.unsafe_fixes:
        from gradkeeper.cli.fixing import fix

        findings = fix(findings, wanted, unsafe=args.unsafe_fixes)
    _report(findings, args)
    if args.statistics:
        _statistics(results, args)
    return 1 if findings and not args.exit_zero else 0


def _wanted(
    findings: "list[Finding]",
    held: dict[str, bytes],
    *,
    selection: Any,
    args: argparse.Namespace,
) -> "list[Finding]":
    """Those of selected rules that the baseline doesn't know. `held`: files not as on disk."""
    chosen = [one for one in findings if selection.wants(one)]
    return chosen if args.baseline is None else _unknown(chosen, held, args)


def _selection(args: argparse.Namespace) -> Any:
    from gradkeeper.lint.config import ConfigError, find
    from gradkeeper.lint.selection import Selection, UnknownCodeError, codes

    try:
        settings, root = find()
        if not (settings or args.select or args.extend_select or args.ignore):
            return Selection(root=root)
        from gradkeeper.rules import ALL

        chosen = args.select or settings.get("select")
        per_file = settings.get("per-file-ignores", {})
        return Selection(
            select=codes(chosen, ALL) if chosen else None,
            extend=codes(args.extend_select, ALL),
            ignore=codes([*args.ignore, *settings.get("ignore", [])], ALL),
            per_file=[(pattern, codes(words, ALL)) for pattern, words in per_file.items()],
            root=root,
        )
    except UnknownCodeError as error:
        known = "`gradkeeper rules` lists them"
        raise CliError(f"no rule has the code or name {str(error)!r}: {known}") from None
    except ConfigError as error:
        raise CliError(str(error)) from None


def _check(args: argparse.Namespace) -> list[tuple[str, Any]]:
    from gradkeeper.cli.progress import Progress
    from gradkeeper.lint.files import find
    from gradkeeper.lint.runner import check_files

    if STDIN in args.paths and (args.fix or args.unsafe_fixes) and not args.diff:
        raise CliError("what comes from stdin cannot be fixed in place: --diff shows the fixes")
    named = [path for path in args.paths if path != STDIN]
    for path in named:
        if not os.path.exists(path):
            raise CliError(f"there is no file or folder {path}")
    fixes = args.fix or args.unsafe_fixes or args.diff or args.format in TELLING_FIXES
    paths = list(find(named))
    results = []
    if paths:
        with Progress(len(paths), sys.stderr, wanted=not args.quiet) as progress:
            checked = check_files(paths, named, fixes=fixes)
            results = [progress.one(result) for result in checked]
    if STDIN in args.paths:
        from gradkeeper.lint.check import check_source
        from gradkeeper.rules import ALL

        text = args.held["<stdin>"] = sys.stdin.buffer.read()
        results.append(("<stdin>", check_source(text, "<stdin>", ALL, fixes=fixes)))
    return results


def _tell_unused(results: Iterable[tuple[str, Any]]) -> None:
    for path, checked in results:
        for line, name in checked.unused:
            complain(f"{path}:{line}: nothing to allow here: {name} is not found")


def _print_of(finding: "Finding", held: dict[str, bytes]) -> str:
    from gradkeeper.lint.baseline import fingerprint
    from gradkeeper.report.source import shown_path

    path = finding.site.file
    try:
        raw = held[path] if path in held else Path(path).read_bytes()
    except OSError:
        raw = b""
    lines = raw.decode("utf-8", "replace").splitlines()
    line = lines[finding.site.line - 1] if finding.site.line <= len(lines) else ""
    return fingerprint(finding, shown_path(path), line)


def _unknown(
    findings: "list[Finding]", held: dict[str, bytes], args: argparse.Namespace
) -> "list[Finding]":
    from gradkeeper.lint.baseline import fresh, load

    try:
        known = load(args.baseline.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise CliError(f"the baseline {args.baseline} cannot be read: {error}") from None
    return fresh(findings, known, partial(_print_of, held=held))


def _write_baseline(findings: "Sequence[Finding]", args: argparse.Namespace) -> int:
    from gradkeeper.lint.baseline import dump

    target = args.write_baseline
    try:
        text = dump(_print_of(one, args.held) for one in findings)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{target} cannot be written: {error.strerror}") from None
    complain(f"accepted {len(findings)} findings in {target}")
    return 0


def _report(findings: "list[Finding]", args: argparse.Namespace) -> None:
    tell(rendered(findings, args, sys.stdout))


def _statistics(results: Iterable[tuple[str, Any]], args: argparse.Namespace) -> None:
    """How much was understood: silence about the rest is no proof."""
    stream = sys.stdout if args.format == "text" else sys.stderr
    loops = rehearsed = 0
    reasons: dict[str, int] = {}
    for _, checked in results:
        loops += checked.loops
        rehearsed += checked.rehearsed
        for why, count in checked.reasons.items():
            reasons[why] = reasons.get(why, 0) + count
    share = f" ({rehearsed / loops:.0%})" if loops else ""
    print(
        f"training loops: {loops} seen, {rehearsed} rehearsed through to a step{share}, "
        f"{loops - rehearsed} not understood",
        file=stream,
    )
    for why, count in sorted(reasons.items(), key=lambda one: -one[1]):
        print(f"  {count:4} {why}", file=stream)
