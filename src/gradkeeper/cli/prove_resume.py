"""`gradkeeper prove-resume -- python train.py`: whether a script resumes exactly after kills."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import tell
from gradkeeper.prove import KILLS, SEED

if TYPE_CHECKING:
    from gradkeeper.prove.proof import Proof

NAME = "prove-resume"
HELP = "kill and restart a training script, and compare its weights with an uninterrupted run's"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "gradkeeper prove-resume [options] -- python train.py [args ...]"
    parser.epilog = (
        "Each run works in a fresh copy of the working folder. Exit 0: exact; 1: the weights "
        "differ, or a restart fails; 2: nothing can be said (the script fails, takes no step, "
        "does not repeat itself, or resumes nothing)."
    )
    many, where = f"how many ({KILLS})", f"where they fall ({SEED})"
    parser.add_argument("--kills", type=_count, default=KILLS, metavar="N", help=many)
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help=where)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text")
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder that the script only reads: linked, not copied",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep copies, records and logs in a new folder"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="for each start (the uninterrupted run: none; the others: many times as long as that)",
    )
    parser.add_argument(
        "--badge", type=Path, metavar="FILE.svg", help="write the verdict as a badge, too"
    )
    parser.add_argument("command_line", nargs=argparse.REMAINDER, help="the command")


def run(args: argparse.Namespace) -> int:
    from gradkeeper.prove import ProveError
    from gradkeeper.prove.proof import prove
    from gradkeeper.prove.verdict import as_json, as_text

    command = args.command_line
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise CliError("name the command: gradkeeper prove-resume -- python train.py")
    try:
        proof = prove(
            command,
            kills=args.kills,
            seed=args.seed,
            share=args.share,
            keep=args.keep,
            timeout=args.timeout,
            say=_to_stderr,
        )
    except ProveError as error:
        _write_badge(None, args)
        raise CliError(str(error)) from None
    _write_badge(proof, args)
    tell(as_json(proof) if args.format == "json" else as_text(proof))
    if proof.exact:
        return 0
    return 2 if proof.equal else 1


def _write_badge(proof: "Proof | None", args: argparse.Namespace) -> None:
    from gradkeeper.cli.output import write_file
    from gradkeeper.prove.verdict import badge

    if args.badge is not None:
        write_file(args.badge, badge(proof))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: at least one kill")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of seconds")
    return seconds


def _to_stderr(line: str) -> None:
    print(f"gradkeeper: {line}", file=sys.stderr, flush=True)
