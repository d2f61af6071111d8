"""`gradkeeper doctor`: what stands in the way of a resume that is equal bit for bit."""

import argparse
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gradkeeper.cli.errors import CliError
from gradkeeper.cli.streams import tell
from gradkeeper.cli.tracebacks import show_traceback
from gradkeeper.extras import INSTALL_TORCH

if TYPE_CHECKING:
    from gradkeeper.checkpoint import Manifest
    from gradkeeper.engine.determinism import MachineFacts, Probe

T = TypeVar("T")
NAME = "doctor"
HELP = "what stands in the way of a resume that is equal bit for bit"
WIDTH = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Exit 0: nothing that was looked at stands in the way; 1: something does; 2: it could not "
        "be looked at."
    )
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="SAVE",
        help="a checkpoint, or a folder for its newest: was it saved on a machine as this?",
    )
    parser.add_argument(
        "--probe",
        metavar="FILE.py:FUNCTION",
        help="calls it for an engine and a step, and runs one window twice: engine.probe(step)",
    )


def run(args: argparse.Namespace) -> int:
    try:
        from gradkeeper.engine.determinism import VERSION, in_the_way, machine_here
    except ModuleNotFoundError as error:
        raise CliError(f"needs {error.name}: {INSTALL_TORCH}") from None
    # Built before anything is judged: a program sets its threads and algorithms by itself.
    probed = None if args.probe is None else _built(args.probe)
    here = machine_here()
    tell(_line("here", _words(here, VERSION)))
    wrong = in_the_way(here)
    for setting in wrong:
        tell(_line("setting", setting))
    if args.folder is not None:
        changed = _changed(args.folder, here, VERSION)
        wrong += changed
        for change in changed or ["saved on a machine as this one"]:
            tell(_line("checkpoint", change))
    if probed is not None:
        probe = _of_the_user(args.probe, probed)
        tell(_line("probe", str(probe)))
        if not probe.repeats or probe.operations:
            wrong.append(str(probe))
    tell(f"{_verdict(wrong, args)}\n")
    return 1 if wrong else 0


def _line(title: str, words: str) -> str:
    return f"{title:<{WIDTH}}{words}\n"


def _words(here: "MachineFacts", version: str) -> str:
    said = "asked for" if here["deterministic"] else "not asked for"
    return (
        f"torch {version}, {here['cpu']}, {here['threads']} threads, {_gpu(here)}; "
        f"deterministic algorithms are {said}"
    )


def _gpu(here: "MachineFacts") -> str:
    if "gpu" not in here:
        return "no GPU"
    products = "no" if here["matmul precision"] == "highest" else "yes"
    convolutions = "yes" if here["cudnn.allow_tf32"] else "no"
    return f"{here['gpu']}, TF32 in products: {products}, in convolutions: {convolutions}"


def _verdict(wrong: list[str], args: argparse.Namespace) -> str:
    if wrong:
        return f"{len(wrong)} in the way of bit for bit"
    unseen = [
        words
        for given, words in (
            (args.folder, "a checkpoint's machine (name its folder)"),
            (args.probe, "your own step (--probe)"),
        )
        if given is None
    ]
    rest = f"; not looked at: {', '.join(unseen)}" if unseen else ""
    return f"nothing that was looked at is in the way of bit for bit{rest}"


def _changed(folder: str, here: "MachineFacts", version: str) -> list[str]:
    from gradkeeper.checkpoint import CheckpointError
    from gradkeeper.engine.determinism import changes

    try:
        found = _newest(folder)
    except (CheckpointError, OSError) as error:
        raise CliError(str(error)) from None
    if "machine" not in found.facts:
        raise CliError(f"{folder} does not say where it was saved: an older gradkeeper wrote it")
    changed = changes(found.facts["machine"], here)
    saved_with = found.versions.get("torch", version)
    if saved_with != version:
        changed.insert(0, f"torch was {saved_with} at the save and is {version} here")
    return changed


def _newest(url: str) -> "Manifest":
    from gradkeeper.checkpoint import MissingError, Store
    from gradkeeper.checkpoint.storage import MANIFEST, storage_at
    from gradkeeper.checkpoint.store import parted

    if MANIFEST in storage_at(url).names():
        folder, name = parted(url)
        return Store(folder).look(name)
    names = Store(url).names()
    if not names:
        raise MissingError(f"{url}: there is no checkpoint")
    return Store(url).look(names[-1])


def _built(place: str) -> Callable[[], "Probe"]:
    """The probe itself is left to the caller: what the user's function sets holds from here on."""
    from gradkeeper.engine import Engine

    made = _of_the_user(place, lambda: _function(place)())
    match made:
        case (Engine() as engine, step) if callable(step):
            return lambda: engine.probe(step)
        case _:
            raise CliError(
                f"{place} must return an engine and a function that takes a window, and returned "
                f"{type(made).__name__}"
            )


def _of_the_user(place: str, act: Callable[[], T]) -> T:
    """What fails in there is told with its traceback: nothing was found out then."""
    from gradkeeper.engine import EngineError

    try:
        return act()
    except CliError:
        raise
    except EngineError as error:
        raise CliError(str(error)) from None
    except (Exception, SystemExit) as error:
        show_traceback()
        raise CliError(f"{place} failed: {type(error).__name__}: {error}") from None


def _function(place: str) -> Callable[[], Any]:
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise CliError(f"--probe takes FILE.py:FUNCTION, and there is no such file: {place}")
    # As Python does for a script, so that it finds the modules beside it.
    sys.path.insert(0, str(Path(file).resolve().parent))
    found = runpy.run_path(file).get(name)
    if not callable(found):
        raise CliError(f"{file} has no function {name!r}")
    function: Callable[[], Any] = found
    return function
