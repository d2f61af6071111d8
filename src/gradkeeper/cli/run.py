"""`gradkeeper run script.py`: runs a training script under watch.

The script sees its own argv, `__main__` and working directory, and keeps its own exit code and
traceback. What was found is written also when it crashes.
"""

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, TracebackType
from typing import IO, TYPE_CHECKING

from gradkeeper.cli import ranks
from gradkeeper.cli.errors import CliError
from gradkeeper.cli.output import (
    add_report_option,
    add_terminal_options,
    rendered,
    write_findings,
    write_statement,
)
from gradkeeper.extras import INSTALL_TORCH
from gradkeeper.model import Finding, Tape
from gradkeeper.model.tape import opened, read_file
from gradkeeper.report import FORMATS, text
from gradkeeper.report.paint import paint_for

if TYPE_CHECKING:
    from gradkeeper.watcher.session import Watch

NAME = "run"
HELP = "run a script under watch and report what happens to its gradients"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "gradkeeper run [options] (script.py | -m module) [args ...]"
    parser.add_argument("--format", choices=FORMATS, default="text", help="text by default")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to (standard error)")
    parser.add_argument("--tape", type=Path, metavar="FILE", help="write down every event")
    add_report_option(parser)
    parser.add_argument(
        "--norms",
        action="store_true",
        help="measure losses and each layer's gradient norm at every step, for tape and report",
    )
    add_terminal_options(parser)
    parser.add_argument(
        "--on-finding",
        choices=("warn", "raise", "record"),
        help="show findings as they come (warn), raise at the line, or only report at the end; "
        "by default what the environment variable GRADKEEPER says, else warn",
    )
    parser.add_argument(
        "--check-finite",
        action="store_true",
        help="look at every gradient that is spent for NaN and inf (GK305); waits for the device",
    )
    parser.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the script and its arguments")


def run(args: argparse.Namespace) -> int:
    program, arguments = _program(args)
    with ExitStack() as stack:
        recorded = _recorded(args, stack)
        with ExitStack() as writing:
            tape = _open_tape(recorded, writing)
            job = _as_module if args.module else _as_script
            watch = _watch(args, tape, program)
            ranks.before_the_script()
            code = _watched(watch, lambda: job(program, arguments))
            if ranks.number() and args.report is not None and recorded is not None:
                writing.close()
                ranks.send(recorded)
            shown = ranks.findings_of_all(watch, ended_well=not code)
        if shown is None:
            return code
        if args.report is not None and recorded is not None:
            others = ranks.received(_folder(stack))
            events = chain.from_iterable(map(read_file, [recorded, *others]))
            told = [*shown, *watch.infos]
            write_statement(events, told, args, title=" ".join([program, *arguments]))
    _write(shown, args, told=watch.findings if watch.on_finding == "warn" else [])
    if code or args.exit_zero or not shown:
        return code
    ranks.before_an_error()
    return 1


def _program(args: argparse.Namespace) -> tuple[str, list[str]]:
    words: list[str] = args.module or args.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise CliError("name a script to run, or a module with -m")
    if args.module is None and not Path(words[0]).is_file():
        raise CliError(f"{words[0]}: no such file")
    return words[0], words[1:]


def _recorded(args: argparse.Namespace, stack: ExitStack) -> Path | None:
    """The file that events go to: where the user wants it, or until the report is written."""
    rank = ranks.number()
    if args.report is not None and rank == 0:
        with _opened(args.report, "a"):  # known before the training, not after it
            pass
    if args.tape is not None:
        tape: Path = args.tape
        return tape if rank == 0 else tape.with_name(f"{tape.name}.rank{rank}")
    return None if args.report is None else _folder(stack) / "tape"


def _folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(TemporaryDirectory(prefix="gradkeeper-")))


def _open_tape(path: Path | None, stack: ExitStack) -> Tape:
    if path is None:
        return Tape()
    return Tape(stack.enter_context(_opened(path, "w")), keep=False)


def _opened(path: Path, mode: str) -> IO[str]:
    try:
        return opened(path, mode)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None


def _watch(args: argparse.Namespace, tape: Tape, program: str) -> "Watch":
    try:
        from gradkeeper.watcher.session import Watch
        from gradkeeper.watching import shower
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise CliError(f"needs torch: {INSTALL_TORCH}") from None
    live = args.format == "text" and args.output is None and ranks.number() == 0
    own = () if args.module else (str(Path(program).resolve().parent) + os.sep,)
    show = shower(args.color) if live else None
    try:
        return Watch(
            on_finding=args.on_finding,
            check_finite=args.check_finite,
            norms=args.norms,
            show=show,
            tape=tape,
            own=own,
        )
    except ValueError as error:
        raise CliError(str(error)) from None


def _watched(watch: "Watch", job: Callable[[], None]) -> int:
    """Runs the job; its exit code."""
    try:
        with watch:
            job()
    except SystemExit as request:
        return _exit_code(request.code)
    except KeyboardInterrupt:
        _show_traceback()
        return 130
    except BaseException:
        _show_traceback()
        return 1
    return 0


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _show_traceback() -> None:
    """As Python would show it, without the lines of ours that called the script."""
    kind, error, trace = sys.exc_info()
    if kind is None or error is None:
        return
    sys.stdout.flush()
    sys.excepthook(kind, error.with_traceback(_users(trace)), _users(trace))


def _users(trace: TracebackType | None) -> TracebackType | None:
    here = {__file__, runpy.__file__, "<frozen runpy>"}
    first = trace
    while first is not None and traceback.extract_tb(first, 1)[0].filename in here:
        first = first.tb_next
    return first or trace


def _as_script(program: str, arguments: list[str]) -> None:
    path = os.path.abspath(program)
    sys.argv = [program, *arguments]
    sys.path[0] = os.path.dirname(path)
    loader = SourceFileLoader("__main__", path)
    main = ModuleType("__main__")
    main.__file__ = program
    main.__loader__ = loader
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    with open(path, "rb") as source:
        code = compile(source.read(), program, "exec")
    exec(code, main.__dict__)


def _as_module(program: str, arguments: list[str]) -> None:
    sys.argv = [program, *arguments]
    sys.path[0] = os.getcwd()
    runpy.run_module(program, run_name="__main__", alter_sys=True)


def _write(findings: list[Finding], args: argparse.Namespace, *, told: list[Finding]) -> None:
    """`told`: what was shown while the script ran; other ranks' findings were not."""
    if args.output is not None:
        write_findings(findings, args)
    elif args.format != "text" or not told:
        sys.stderr.write(rendered(findings, args, sys.stderr))
    else:
        known = {(one.rule, one.site) for one in told}
        paint = paint_for(sys.stderr, args.color)
        for one in findings:
            if (one.rule, one.site) not in known:
                print(text.render_one(one, paint=paint), file=sys.stderr)
        if not args.quiet:
            sys.stderr.write(f"gradkeeper: {text.summary(findings)}")
