"""`gradkeeper check`: rehearses training code without running it. Needs no torch."""

import argparse
import atexit
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.output import (
    add_terminal_options,
    as_path,
    rendered,
    rendered_as,
    write_file,
)
from gradkeeper.cli.streams import complain, tell

if TYPE_CHECKING:
    from pathlib import Path

    from gradkeeper.lint.program import TrainingLoop
    from gradkeeper.model.finding import Finding

NAME = "check"
HELP = "find what goes wrong with gradients in training code, without running it"
STDIN = "-"
TELLING_FIXES = ("json", "sarif")
NOT_CHECKED = "GK001"
INTERRUPTED = 130
"""As a shell says it of a process that SIGINT ended."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "gradkeeper check [options] [PATH ...]"
    parser.epilog = (
        "Exit 0: nothing found; 1: something was found; 2: could not run, or not to the end of "
        "each file. CODES: GK101, GK1 for all that begin so, or a name; commas between several."
    )
    parser.add_argument(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="files, folders, - for stdin; without any, the folder you are in",
    )
    parser.add_argument(
        "--watch", action="store_true", help="check again whenever a file changes, until Ctrl-C"
    )
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
    _add_rules(parser.add_argument_group("which findings"))
    _add_fixes(parser.add_argument_group("fixes"))
    _add_output(parser.add_argument_group("what is told"))


def _add_rules(group: "argparse._ArgumentGroup") -> None:
    for option, text in (
        ("--select", "of these rules only"),
        ("--extend-select", "of these as well, infos included"),
        ("--ignore", "of all but these"),
    ):
        group.add_argument(option, action="append", default=[], metavar="CODES", help=text)
    group.add_argument("--baseline", type=as_path, metavar="FILE", help="tell only what is new")
    group.add_argument(
        "--write-baseline", type=as_path, metavar="FILE", help="accept what is there"
    )


def _add_fixes(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--fix", action="store_true", help="apply the fixes that are safe")
    group.add_argument(
        "--diff",
        action="store_true",
        help="show what --fix would change, and change nothing; exit 1 if there are findings",
    )
    group.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: the others too"
    )


def _add_output(group: "argparse._ArgumentGroup") -> None:
    from gradkeeper.report import FORMATS

    group.add_argument("--format", choices=FORMATS, default="text", help="text by default")
    group.add_argument(
        "--also",
        action="append",
        default=[],
        type=_report_in_file,
        metavar="FORMAT=FILE",
        help="write the findings to a file as well, such as sarif=found.sarif",
    )
    add_terminal_options(group)
    group.add_argument("--statistics", action="store_true", help="how much was understood")
    group.add_argument(
        "--explain-silence",
        action="store_true",
        help="of each training loop: how it was rehearsed (followed in its source), or why not",
    )
    group.add_argument(
        "--traceback", action="store_true", help="show where gradkeeper itself failed (GK001)"
    )


def _report_in_file(text: str) -> "tuple[str, Path]":
    from gradkeeper.report import FORMATS

    name, equals, path = text.partition("=")
    if name not in FORMATS or not equals or not path:
        raise argparse.ArgumentTypeError(f"{text!r}: FORMAT=FILE, of {', '.join(FORMATS)}")
    if path == STDIN:
        raise argparse.ArgumentTypeError(f"{text!r}: --format {name} writes to standard output")
    return name, as_path(path)


def run(args: argparse.Namespace) -> int:
    from gradkeeper.lint.check import collect_rarely

    before = gc.get_threshold()
    collect_rarely()
    # At its end, Python would search all that is left for cycles: 4 % of the check of one line.
    atexit.unregister(gc.freeze)  # once, however often a process checks
    atexit.register(gc.freeze)
    try:
        return _run(args)
    except KeyboardInterrupt:
        if args.watch:
            return 0
        complain("gradkeeper check: interrupted; nothing is told of what was checked so far")
        return INTERRUPTED
    finally:
        gc.set_threshold(*before)


def _run(args: argparse.Namespace) -> int:
    if args.unsafe_fixes and not (args.fix or args.diff):
        complain("--unsafe-fixes changes nothing by itself: add --fix to apply, --diff to see")
    args.held = {}
    if args.watch:
        _watch(args)
    selections = _selections(args)
    results = _check(args, selections)
    _tell_unused(results)
    if args.traceback:
        _tell_tracebacks(results)
    wanted = partial(_wanted, selections=selections, args=args)
    findings = wanted(
        [finding for _, checked in results for finding in checked.findings], args.held
    )
    if args.write_baseline:
        return _write_baseline(findings, args)
    remarks = False
    if args.diff or args.fix:
        from gradkeeper.cli.fixing import FixableProgram, fix, show

        by_file: dict[str, list[Finding]] = {path: [] for path, _ in results}
        for finding in findings:
            by_file.setdefault(finding.site.file, []).append(finding)
        program = FixableProgram(
            dict(results), wanted, by_file, args.held, unsafe=args.unsafe_fixes
        )
        if args.diff:
            show(program)
            return _code(findings, args)
        findings, remarks = fix(program)
    _report(findings, results, args, remarks=remarks)
    for name, path in args.also:
        write_file(path, rendered_as(name, findings))
    if args.explain_silence:
        _explain_silence(results, args)
    if args.statistics:
        _statistics(results, args)
    return _code(findings, args)


def _watch(args: argparse.Namespace) -> NoReturn:
    from gradkeeper.cli.rechecking import Results, watch

    for option in ("fix", "diff", "write_baseline", "also"):
        if getattr(args, option):
            raise CliError(f"--watch goes without --{option.replace('_', '-')}")
    if args.format != "text" or STDIN in args.paths:
        raise CliError("--watch tells people: text, of files and folders")
    _selections(args)  # what cannot be selected is told at once
    _there(args.paths)

    def report(results: Results) -> str:
        # Read anew: pyproject.toml may have changed.
        found = [finding for _, checked in results for finding in checked.findings]
        findings = _wanted(found, args.held, selections=_selections(args), args=args)
        if not findings:
            return f"{_nothing_found(results, args)}\n"
        return rendered(findings, args, sys.stdout)

    watch(args.paths, report)


def _there(paths: Iterable[str]) -> None:
    for path in paths:
        if not os.path.exists(path):
            raise CliError(f"there is no file or folder {path or repr(path)}")


def _code(findings: "list[Finding]", args: argparse.Namespace) -> int:
    """2 where a file was not checked to its end: then nobody knows what else there is to find."""
    if any(finding.rule == NOT_CHECKED for finding in findings):
        return 2
    return 1 if findings and not args.exit_zero else 0


def _wanted(
    findings: "list[Finding]",
    held: dict[str, bytes],
    *,
    selections: Any,
    args: argparse.Namespace,
) -> "list[Finding]":
    """Those of selected rules that the baseline doesn't know. `held`: files not as on disk."""
    from gradkeeper.lint.config import ConfigError

    try:
        chosen = [finding for finding in findings if selections.wants(finding)]
    except ConfigError as error:  # of a file that was only read along
        raise CliError(str(error)) from None
    return chosen if args.baseline is None else _unknown(chosen, held, args)


def _selections(args: argparse.Namespace) -> Any:
    from gradkeeper.lint.config import Selections, UnknownCodeError

    try:
        return Selections(select=args.select, extend=args.extend_select, ignore=args.ignore)
    except UnknownCodeError as error:
        raise CliError(str(error)) from None


def _check(args: argparse.Namespace, selections: Any) -> list[tuple[str, Any]]:
    from gradkeeper.cli.progress import CheckProgress
    from gradkeeper.lint.check import check_bytes, check_files
    from gradkeeper.lint.files import find

    if STDIN in args.paths and args.fix and not args.diff:
        raise CliError("what comes from stdin cannot be fixed in place: --diff shows the fixes")
    named = [path for path in args.paths if path != STDIN]
    _there(named)
    formats = {args.format, *(name for name, _ in args.also)}
    fixes = args.fix or args.diff or not formats.isdisjoint(TELLING_FIXES)
    paths = list(find(named))
    _read_settings(selections, paths, args)
    results = []
    if paths:
        with CheckProgress(len(paths), sys.stderr, wanted=not args.quiet) as progress:
            checked = check_files(paths, named, fixes=fixes)
            results = sorted((progress.one(result) for result in checked), key=_in_order(paths))
    if STDIN in args.paths:
        from gradkeeper.report.source import show_as_stdin

        text = args.held["<stdin>"] = sys.stdin.buffer.read()
        show_as_stdin(text)
        results.append(("<stdin>", check_bytes(text, "<stdin>", fixes=fixes)))
    return results


def _in_order(paths: list[str]) -> Callable[[tuple[str, Any]], tuple[int, str]]:
    """As they were found; then those that were only read along."""
    order = {path: number for number, path in enumerate(paths)}
    return lambda result: (order.get(result[0], len(order)), result[0])


def _read_settings(selections: Any, paths: list[str], args: argparse.Namespace) -> None:
    """First of all: what is wrong with them is told before a large tree is read."""
    from gradkeeper.lint.config import ConfigError

    try:
        for path in [*paths, *(["<stdin>"] if STDIN in args.paths else [])]:
            selections.of(path)
    except ConfigError as error:
        raise CliError(str(error)) from None


def _tell_unused(results: Iterable[tuple[str, Any]]) -> None:
    for path, checked in results:
        for place, name in checked.unused:
            complain(f"{path}:{place}: nothing to allow here: {name} is not found")


def _tell_tracebacks(results: Iterable[tuple[str, Any]]) -> None:
    for path, checked in results:
        if checked.traceback:
            complain(f"{path}:\n{checked.traceback}")


def _print_of(finding: "Finding", held: dict[str, bytes]) -> str:
    from gradkeeper.report.source import lines_in

    path = finding.site.file
    try:
        raw = held[path] if path in held else as_path(path).read_bytes()
    except OSError:
        raw = b""
    lines = lines_in(raw, finding.cell)
    line = lines[finding.site.line - 1] if finding.site.line <= len(lines) else ""
    return finding.fingerprint(line)


def _unknown(
    findings: "list[Finding]", held: dict[str, bytes], args: argparse.Namespace
) -> "list[Finding]":
    from gradkeeper.lint.suppress import fresh, load_baseline

    try:
        known = load_baseline(args.baseline.read_text(encoding="utf-8"))
    except OSError as error:
        why = f"{error.strerror}; --write-baseline makes one"
        raise CliError(f"the baseline {args.baseline} cannot be read: {why}") from None
    except (ValueError, KeyError, AttributeError) as error:
        raise CliError(f"the baseline {args.baseline} cannot be read: {error}") from None
    return fresh(findings, known, partial(_print_of, held=held))


def _write_baseline(findings: "Sequence[Finding]", args: argparse.Namespace) -> int:
    from gradkeeper.lint.suppress import dump_baseline

    target = args.write_baseline
    try:
        text = dump_baseline(_print_of(finding, args.held) for finding in findings)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{target} cannot be written: {error.strerror}") from None
    complain(f"accepted {len(findings)} findings in {target}")
    return 0


def _report(
    findings: "list[Finding]",
    results: list[tuple[str, Any]],
    args: argparse.Namespace,
    *,
    remarks: bool,
) -> None:
    if not findings and args.format == "text":
        said = "nothing else found" if remarks else _nothing_found(results, args)
        tell("" if args.quiet else f"{said}\n")
        return
    tell(rendered(findings, args, sys.stdout))


def _nothing_found(results: list[tuple[str, Any]], args: argparse.Namespace) -> str:
    """What silence is worth: it says something only of loops that were understood."""
    from gradkeeper.report.paint import paint_for

    if not results:
        return f"nothing to check: no Python file or notebook in {', '.join(args.paths)}"
    loops = sum(checked.loops for _, checked in results)
    understood = sum(checked.rehearsed for _, checked in results)
    if not loops:
        return f"nothing found: no training loop was seen in {_count(len(results), 'file')}"
    if understood < loops:
        told = args.statistics or args.explain_silence
        why = "" if told else " (--explain-silence says why)"
        checked = _count(understood, "training loop")
        return f"nothing found: {checked} checked, {loops - understood} not understood{why}"
    good = paint_for(sys.stdout, args.color).good("nothing found")
    return f"{good} in {_count(loops, 'training loop')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _explain_silence(results: Iterable[tuple[str, Any]], args: argparse.Namespace) -> None:
    """Of each training loop: what its silence is worth."""
    blocks = [
        "\n".join((f"{path}:{loop.place}  {loop.what}", *(f"   {line}" for line in _story(loop))))
        for path, checked in results
        for loop in checked.training
    ]
    _tell_beside("\n".join(blocks or ["no training loop was seen"]), args)


def _story(loop: "TrainingLoop") -> Iterator[str]:
    if loop.why:
        yield f"not rehearsed through two rounds to a step: {loop.why}"
    if not loop.rehearsals:
        return
    yield f"{_count(loop.rehearsals, 'rehearsal')}, from {'; '.join(loop.begins)}"
    if loop.settings:
        yield f"settings: {', '.join(loop.settings)}"
    if len(loop.windows) > 1:
        yield f"windows of {' and '.join(map(str, loop.windows))} micro-batches"
    if loop.doubts and not loop.why:
        yield f"most rules say nothing of it: {'; '.join(loop.doubts)}"
    if loop.unfinished:
        yield "not all of its settings were tried: it is too large for more rehearsals"


def _statistics(results: Iterable[tuple[str, Any]], args: argparse.Namespace) -> None:
    """How much was understood: silence about the rest is no proof."""
    loops = [loop for _, checked in results for loop in checked.training]
    reasons = Counter(loop.why for loop in loops if loop.why)
    rehearsed = len(loops) - reasons.total()
    share = f" ({rehearsed / len(loops):.0%})" if loops else ""
    lines = [
        f"training loops: {len(loops)} seen, {rehearsed} rehearsed through to a step{share}, "
        f"{len(loops) - rehearsed} not understood",
        *(f"  {count:4} {why}" for why, count in reasons.most_common()),
    ]
    _tell_beside("\n".join(lines), args)


def _tell_beside(text: str, args: argparse.Namespace) -> None:
    """Beside the report: where that is for a machine, on the other stream."""
    if args.format == "text":
        tell(f"{text}\n")
    else:
        complain(text)
