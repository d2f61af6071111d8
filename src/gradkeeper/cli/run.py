"""`gradkeeper run script.py`: runs a training script under watch.

The script sees its own argv, `__main__` and working directory, and keeps its own exit code and
traceback. What was found is written also when it crashes.
"""

import argparse
import os
import runpy
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, TYPE_CHECKING

from gradkeeper.cli import exits, ranks
from gradkeeper.cli.errors import CliError
from gradkeeper.cli.exits import Ending
from gradkeeper.cli.output import (
    add_report_option,
    add_terminal_options,
    rendered,
    write_findings,
    write_statement,
)
from gradkeeper.cli.streams import complain
from gradkeeper.cli.tracebacks import show_traceback
from gradkeeper.extras import INSTALL_TORCH
from gradkeeper.model import Finding, Severity, Tape
from gradkeeper.model.tape import opened, read_file
from gradkeeper.report import FORMATS, text
from gradkeeper.report.paint import paint_for

if TYPE_CHECKING:
    from gradkeeper.watcher.session import Watch

INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C has ended."""
UNDER_LAUNCHER = (
    "gradkeeper: the exit code is the script's own, 0, or the launcher would take the training for "
    "failed; --fail-on warning makes it 1"
)

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
    parser.add_argument(
        "--fail-on",
        choices=("warning", "error", "never"),
        help="which findings make the exit code 1, if the script's own is 0: warning, or never "
        "under torchrun and accelerate, which would take it for a failed training",
    )
    parser.add_argument("--exit-zero", action="store_true", help="the same as --fail-on never")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module"
    )
    parser.add_argument("script", nargs=argparse.REMAINDER, help="the script and its arguments")


def run(args: argparse.Namespace) -> int:
    program, arguments = _program(args)
    with ExitStack() as stack:
        job = _Job(args, " ".join([program, *arguments]), _recorded(args, stack), stack)
        job.watch = _watch(args, job.tape, program)
        ranks.before_the_script()
        play = _as_module if args.module else _as_script
        with exits.guarded(job.finish):
            ending = _watched(job.watch, lambda: play(program, arguments))
            try:
                code = job.finish(ending)
            except KeyboardInterrupt:
                complain("gradkeeper: interrupted, before all was written")
                return INTERRUPTED
    return ending.code if code is None else code


class _Job:
    """A script under watch, and what is written when it has ended, in whatever way."""

    def __init__(
        self, args: argparse.Namespace, title: str, recorded: Path | None, stack: ExitStack
    ) -> None:
        self._args = args
        self._title = title
        self._recorded = recorded
        self._stack = stack
        self._writing = stack.enter_context(ExitStack())
        self.tape = _open_tape(recorded, self._writing)
        self.watch: Watch
        self._begun = threading.Lock()

    def finish(self, ending: Ending) -> int | None:
        if not self._begun.acquire(blocking=False):
            return None
        args, watch = self._args, self.watch
        watch.close()
        if ranks.number() and args.report is not None and self._recorded is not None:
            self._writing.close()
            ranks.send(self._recorded)
        shown = ranks.findings_of_all(watch, ended_well=not ending.how, hurried=ending.hurried)
        self._writing.close()
        if shown is None:
            return ending.code
        if args.report is not None and self._recorded is not None:
            others = ranks.received(_folder(self._stack))
            events = chain.from_iterable(map(read_file, [self._recorded, *others]))
            write_statement(events, [*shown, *watch.infos], args, title=self._title, how=ending.how)
        nothing = _nothing(ending.how, trained=watch.trained)
        told = watch.findings if watch.on_finding == "warn" else []
        if ending.raised is not None:
            told = [ending.raised]  # the traceback says so
        _write(shown, args, told=told, nothing=nothing)
        if ending.code or not fails(shown, args):
            if shown and not (ending.code or args.fail_on or args.exit_zero or args.quiet):
                print(UNDER_LAUNCHER, file=sys.stderr)
            return ending.code
        ranks.before_an_error()
        return 1


def _nothing(how: str, *, trained: bool) -> str:
    """What is said if nothing was found; empty if that is all there is to say."""
    until = f"before the script {how}" if how else "while the script ran"
    if not trained:
        return f"no training was seen: no backward and no optimizer step happened {until}"
    return f"nothing found {until}" if how else ""


def fails(findings: list[Finding], args: argparse.Namespace) -> bool:
    """Whether findings make a failure of a script that ended well."""
    threshold = args.fail_on or ("never" if ranks.launched() else "warning")
    if args.exit_zero or threshold == "never":
        return False
    return any(finding.severity is Severity.ERROR or threshold == "warning" for finding in findings)


def _program(args: argparse.Namespace) -> tuple[str, list[str]]:
    words: list[str] = args.module or args.script
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise CliError("name a script to run, or a module with -m")
    if args.module is None:
        _require_script(Path(words[0]))
    return words[0], words[1:]


def _require_script(script: Path) -> None:
    if script.is_dir():
        raise CliError(f"{script} is a folder: name the script in it, or a module with -m")
    if not script.is_file():
        raise CliError(f"{script}: no such file")
    if script.suffix == ".ipynb":
        raise CliError(
            f"{script} is a notebook: `gradkeeper check` reads it, %%gradkeeper watches its cells"
        )


def _recorded(args: argparse.Namespace, stack: ExitStack) -> Path | None:
    """The file that events go to: where the user wants it, or until the report is written."""
    rank = ranks.number()
    if args.report is not None and rank == 0:
        _try_to_write(args.report)
    if args.tape is not None:
        tape: Path = args.tape
        return tape if rank == 0 else tape.with_name(f"{tape.name}.rank{rank}")
    return None if args.report is None else _folder(stack) / "tape"


def _try_to_write(page: Path) -> None:
    """Known before the training, not after it; no empty page stays where none was."""
    existed = page.exists()
    with _opened(page, "a"):
        pass
    if not existed:
        page.unlink(missing_ok=True)


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


def _watched(watch: "Watch", job: Callable[[], None]) -> Ending:
    """Runs the job; how it ended."""
    from gradkeeper.watcher import FindingError

    try:
        with watch:
            job()
    except SystemExit as request:
        code = _exit_code(request.code)
        return Ending(code, f"ended with exit code {code}" if code else "")
    except KeyboardInterrupt:
        show_traceback()
        return Ending(INTERRUPTED, "was interrupted", hurried=True)
    except BaseException as error:
        show_traceback()
        raised = error.finding if isinstance(error, FindingError) else None
        return Ending(1, f"died of {type(error).__name__}", raised=raised)
    return Ending(0)


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


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


def _write(
    findings: list[Finding], args: argparse.Namespace, *, told: list[Finding], nothing: str
) -> None:
    """`told`: what was shown while the script ran; other ranks' findings were not."""
    paint = paint_for(sys.stderr, args.color)
    if args.output is not None:
        write_findings(findings, args, nothing=nothing)
    elif args.format != "text" or not told:
        nothing = nothing or paint.good("nothing found")
        sys.stderr.write(rendered(findings, args, sys.stderr, nothing=f"gradkeeper: {nothing}"))
    else:
        known = {(said.rule, said.site) for said in told}
        for finding in findings:
            if (finding.rule, finding.site) not in known:
                print(text.render_one(finding, paint=paint), file=sys.stderr)
        if not args.quiet:
            sys.stderr.write(f"gradkeeper: {text.summary(findings)}")
